//! Pages of lists.

use std::ops::Range;

use crate::RpcError;

/// Returns the range of items on the page of `cursor`, and the cursor of the next page. `len` is
/// the number of items, `size` that of one page.
///
/// # Errors
/// Returns an error if this function has not returned the cursor.
pub fn page(
    len: usize,
    cursor: Option<&str>,
    size: usize,
) -> Result<(Range<usize>, Option<String>), RpcError> {
    let start = match cursor {
        None => 0,
        Some(cursor) => cursor
            .strip_prefix('p')
            .and_then(|offset| offset.parse::<usize>().ok())
            .ok_or_else(|| RpcError::invalid_params("cursor is not one that this server gave"))?,
    };
    // The list may have become shorter since the cursor was returned; then the page is empty.
    let start = start.min(len);
    let end = start.saturating_add(size.max(1)).min(len);
    Ok((start..end, (end < len).then(|| format!("p{end}"))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_cover_the_list_once() {
        let mut seen = Vec::new();
        let mut cursor = None;
        loop {
            let (range, next) = page(10, cursor.as_deref(), 4).unwrap();
            seen.extend(range);
            let Some(next) = next else { break };
            cursor = Some(next);
        }
        assert_eq!(seen, (0..10).collect::<Vec<_>>());
    }

    #[test]
    fn strange_cursors_are_refused() {
        for cursor in ["", "x", "p", "p-1", "p99999999999999999999999"] {
            assert!(page(10, Some(cursor), 4).is_err(), "{cursor}");
        }
        assert_eq!(page(10, Some("p50"), 4).unwrap(), (10..10, None));
    }
}
