//! The size of a frame, which follows the size that its View reports.

use std::time::Duration;

use marquetry_protocol::types::JsonObject;
use serde::Serialize;
use serde_json::Value;

use crate::types::{ContainerDimensions, Extent};

/// The size that a host gives to a View, in CSS pixels. If an axis is `None`, its size stays
/// unchanged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Size {
    /// The width.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub width: Option<f64>,
    /// The height.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub height: Option<f64>,
}

/// Follows the size of a View's content on the axes that the View chooses.
#[derive(Clone, Debug, Default)]
pub(super) struct SizeFollower {
    width: Axis,
    height: Axis,
}

/// Largest shrinkage that counts as an echo. A View whose content fills its frame reports a pixel
/// less each time, because of borders.
const ECHO: f64 = 4.0;
/// Largest growth that counts as small. A View whose content is always a little larger than its
/// frame would grow in small steps without end.
const SMALL_GROWTH: f64 = 16.0;
/// Number of small growths in a row after which the View grows no further until its size is stable.
/// Growth that is refused counts as growth: a View that goes on reporting it is not stable.
const MAX_SMALL_GROWTHS: u32 = 50;
/// Time without growth after which a size is stable.
const STABLE_AFTER: Duration = Duration::from_secs(1);

#[derive(Clone, Debug, Default)]
struct Axis {
    applied: Option<f64>,
    small_growths: u32,
    grew_at: Duration,
}

impl SizeFollower {
    /// Parses the parameters of `ui/notifications/size-changed`.
    ///
    /// # Errors
    /// Returns an error if both axes are absent, or one is not a number of at least 0.
    pub(super) fn parse(params: &JsonObject) -> Result<Size, &'static str> {
        fn axis(params: &JsonObject, name: &str) -> Result<Option<f64>, &'static str> {
            match params.get(name) {
                None | Some(Value::Null) => Ok(None),
                Some(value) => match value.as_f64() {
                    Some(size) if size.is_finite() && size >= 0.0 => Ok(Some(size)),
                    _ => Err("width and height must be numbers of at least 0"),
                },
            }
        }
        let size = Size { width: axis(params, "width")?, height: axis(params, "height")? };
        if size == Size::default() { Err("there is neither width nor height") } else { Ok(size) }
    }

    /// Returns the new size of the frame, if it changes.
    pub(super) fn follow(
        &mut self,
        now: Duration,
        content: Size,
        room: ContainerDimensions,
        largest: f64,
    ) -> Option<Size> {
        let size = Size {
            width: self.width.follow(now, content.width, room.width, largest),
            height: self.height.follow(now, content.height, room.height, largest),
        };
        (size != Size::default()).then_some(size)
    }

    /// Forgets the reported sizes after the room for the frame changed.
    pub(super) fn reset(&mut self) {
        *self = Self::default();
    }
}

impl Axis {
    fn follow(
        &mut self,
        now: Duration,
        content: Option<f64>,
        room: Extent,
        largest: f64,
    ) -> Option<f64> {
        let wanted = match room {
            Extent::Fixed(_) => return None,
            Extent::AtMost(max) => content?.min(max).min(largest),
            Extent::Unbounded => content?.min(largest),
        };
        if let Some(applied) = self.applied {
            let change = wanted - applied;
            if (-ECHO..=0.0).contains(&change) {
                return None;
            }
            if change > 0.0 && change <= SMALL_GROWTH {
                if now.saturating_sub(self.grew_at) > STABLE_AFTER {
                    self.small_growths = 0;
                }
                self.grew_at = now;
                if self.small_growths == MAX_SMALL_GROWTHS {
                    return None;
                }
                self.small_growths += 1;
            } else {
                self.small_growths = 0;
            }
        }
        self.applied = Some(wanted);
        Some(wanted)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn height(height: f64) -> Size {
        Size { width: None, height: Some(height) }
    }

    #[test]
    fn a_flexible_axis_is_followed_and_clamped() {
        let mut follower = SizeFollower::default();
        let room =
            ContainerDimensions { width: Extent::Fixed(400.0), height: Extent::AtMost(600.0) };
        let both = Size { width: Some(300.0), height: Some(500.0) };
        for (content, followed) in [
            (both, Some(height(500.0))),
            (both, None),
            (height(9_000.0), Some(height(600.0))),
            (height(100.0), Some(height(100.0))),
        ] {
            assert_eq!(follower.follow(Duration::ZERO, content, room, 1e4), followed);
        }
        let mut unbounded = SizeFollower::default();
        let room = ContainerDimensions::default();
        assert_eq!(unbounded.follow(Duration::ZERO, height(1e9), room, 1e4), Some(height(1e4)));
    }

    #[test]
    fn a_view_that_shrinks_by_a_pixel_each_time_stands_still() {
        let mut follower = SizeFollower::default();
        let room = ContainerDimensions::default();
        let mut frame = 600.0;
        follower.follow(Duration::ZERO, height(frame), room, 1e4);
        for _ in 0..100 {
            if let Some(size) = follower.follow(Duration::ZERO, height(frame - 1.0), room, 1e4) {
                frame = size.height.unwrap();
            }
        }
        assert_eq!(frame, 600.0);
        assert_eq!(follower.follow(Duration::ZERO, height(595.0), room, 1e4), Some(height(595.0)));
    }

    #[test]
    fn a_view_that_grows_with_its_frame_stops_until_it_rests() {
        let mut follower = SizeFollower::default();
        let room = ContainerDimensions::default();
        let mut frame = 100.0;
        // For a minute, with each picture of the screen.
        for step in 0..60 * 60 {
            let now = Duration::from_millis(16 * step);
            if let Some(size) = follower.follow(now, height(frame + 1.0), room, 1e4) {
                frame = size.height.unwrap();
            }
        }
        // The first report does not count as growth.
        assert_eq!(frame, 101.0 + f64::from(MAX_SMALL_GROWTHS));
        let later = Duration::from_mins(1);
        assert!(follower.follow(later, height(frame + 1.0), room, 1e4).is_some());
    }

    #[test]
    fn sizes_are_numbers() {
        fn parse(value: Value) -> Result<Size, &'static str> {
            SizeFollower::parse(value.as_object().unwrap())
        }
        assert_eq!(parse(json!({ "height": 7 })), Ok(height(7.0)));
        assert!(parse(json!({ "height": 7, "width": null })).is_ok());
        for wrong in [json!({}), json!({ "height": "7" }), json!({ "width": -1, "height": 7 })] {
            assert!(parse(wrong.clone()).is_err(), "{wrong}");
        }
    }
}
