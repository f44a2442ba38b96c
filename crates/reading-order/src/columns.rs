//! Finds columns whose lines are drawn row by row, and pages that are drawn upwards.

use crate::lines::Line;

/// Smallest width of the space between two columns, by the size of the font.
const GUTTER: f64 = 0.7;
/// Smallest number of rows of columns. Fewer may be a heading or a table.
const FEWEST_ROWS: usize = 3;
/// Maximum number of columns beside each other.
const MAX_COLUMNS: usize = 8;

/// Returns the order of lines in which the columns of running text follow each other.
pub(crate) fn columns(lines: &[Line], order: Vec<usize>, is_right_to_left: bool) -> Vec<usize> {
    split_columns(lines, order, is_right_to_left, MAX_COLUMNS)
}

fn split_columns(
    lines: &[Line],
    mut order: Vec<usize>,
    is_right_to_left: bool,
    depth: usize,
) -> Vec<usize> {
    if depth == 0 || order.len() < 2 * FEWEST_ROWS {
        return order;
    }
    let rows = rows(lines, &order);
    let mut from = 0;
    while from < rows.len() {
        let Some((gutter, to)) = longest_gutter(lines, &rows, from) else {
            from += 1;
            continue;
        };
        let (mut first, mut second): (Vec<usize>, Vec<usize>) = rows[from..to]
            .concat()
            .into_iter()
            .partition(|&index| (lines[index].start < gutter) != is_right_to_left);
        if are_columns(lines, &first, &second) && !is_in_order(&order, &rows[from..to], &second) {
            first = split_columns(lines, first, is_right_to_left, depth - 1);
            second = split_columns(lines, second, is_right_to_left, depth - 1);
            first.append(&mut second);
            order = with_block(order, &first);
        }
        from = to;
    }
    order
}

/// Returns an order in which these lines follow each other, at the place of the first one.
fn with_block(order: Vec<usize>, block: &[usize]) -> Vec<usize> {
    let highest = block.iter().copied().max().unwrap_or(0);
    let mut is_in_block = vec![false; highest + 1];
    for &line in block {
        is_in_block[line] = true;
    }
    let mut new = Vec::with_capacity(order.len());
    let mut is_open = true;
    for line in order {
        if !is_in_block.get(line).copied().unwrap_or(false) {
            new.push(line);
        } else if std::mem::take(&mut is_open) {
            new.extend_from_slice(block);
        }
    }
    new
}

/// Returns the rows of a page from the top, each with its lines in the direction of writing.
fn rows(lines: &[Line], order: &[usize]) -> Vec<Vec<usize>> {
    let mut sorted = order.to_vec();
    sorted.sort_by(|&left, &right| lines[left].base.total_cmp(&lines[right].base));
    let mut rows: Vec<Vec<usize>> = Vec::new();
    for index in sorted {
        match rows.last_mut() {
            Some(row) if lines[row[0]].is_beside(&lines[index]) => row.push(index),
            _ => rows.push(vec![index]),
        }
    }
    for row in &mut rows {
        row.sort_by(|&left, &right| lines[left].start.total_cmp(&lines[right].start));
    }
    rows
}

/// Returns the middle of the space in a row that most of the rows below leave free as well, and the
/// end of these rows.
fn longest_gutter(lines: &[Line], rows: &[Vec<usize>], from: usize) -> Option<(f64, usize)> {
    let mut longest: Option<(f64, usize)> = None;
    for pair in rows[from].windows(2).take(MAX_COLUMNS) {
        let [left, right] = [&lines[pair[0]], &lines[pair[1]]];
        let mut gutter = Gutter { start: left.end, end: right.start };
        if !gutter.is_wide(left.size) {
            continue;
        }
        let mut full_rows = 1;
        let mut to = from + 1;
        while let Some(row) = rows.get(to) {
            let Some(narrower) = gutter.beside(lines, row) else { break };
            let is_full = lines[row[0]].end <= narrower.start
                && lines[*row.last().expect("a row has a line")].start >= narrower.end;
            let gap = lines[row[0]].base - lines[rows[to - 1][0]].base;
            // A heading or a footnote below the columns.
            if !is_full && gap > 2.5 * lines[row[0]].size {
                break;
            }
            full_rows += usize::from(is_full);
            gutter = narrower;
            to += 1;
        }
        if full_rows >= FEWEST_ROWS && longest.is_none_or(|(_, end)| end < to) {
            longest = Some((f64::midpoint(gutter.start, gutter.end), to));
        }
    }
    longest
}

/// The space between two columns.
#[derive(Clone, Copy)]
struct Gutter {
    start: f64,
    end: f64,
}

impl Gutter {
    fn is_wide(self, size: f64) -> bool {
        self.end - self.start >= GUTTER * size
    }

    /// Returns the part of the space that a row leaves free, if it is wide enough.
    fn beside(self, lines: &[Line], row: &[usize]) -> Option<Self> {
        let mut gutter = self;
        for &index in row {
            let line = &lines[index];
            if f64::midpoint(line.start, line.end) < f64::midpoint(self.start, self.end) {
                gutter.start = gutter.start.max(line.end);
            } else {
                gutter.end = gutter.end.min(line.start);
            }
            if !gutter.is_wide(line.size) {
                return None;
            }
        }
        Some(gutter)
    }
}

/// Returns whether two sides of a gutter are columns of running text: their lines are long, and go
/// on in the next line. Cells of a table are short, or begin with a capital letter or a number.
fn are_columns(lines: &[Line], first: &[usize], second: &[usize]) -> bool {
    /// Smallest mean number of letters of a line, and of a line in a script without capital
    /// letters, such as Chinese.
    const LETTERS: [usize; 2] = [16, 7];
    let mut lower = 0;
    let mut cased = 0;
    for side in [first, second] {
        let width = side.iter().map(|&index| lines[index].end - lines[index].start);
        let widest = width.clone().fold(0.0, f64::max);
        let long = width.filter(|width| *width >= 0.65 * widest).count();
        let letters: usize = side
            .iter()
            .map(|&index| lines[index].characters().filter(|it| it.is_alphabetic()).count())
            .sum();
        let beginnings = side
            .iter()
            .filter_map(|&index| lines[index].characters().find(|it| it.is_alphanumeric()));
        let cased_before = cased;
        for beginning in beginnings {
            lower += usize::from(beginning.is_lowercase());
            cased += usize::from(beginning.is_lowercase() || beginning.is_uppercase());
        }
        let least = LETTERS[usize::from(cased == cased_before)];
        if side.len() < FEWEST_ROWS || long * 2 < side.len() || letters < least * side.len() {
            return false;
        }
    }
    lower * 4 >= cased
}

/// Returns whether two columns are drawn one after the other, or in larger pieces, each from the
/// top.
fn is_in_order(order: &[usize], rows: &[Vec<usize>], second: &[usize]) -> bool {
    let highest = rows.iter().flatten().copied().max().unwrap_or(0);
    let mut row_of_line = vec![None; highest + 1];
    for (number, row) in rows.iter().enumerate() {
        for &line in row {
            row_of_line[line] = Some(number);
        }
    }
    let mut is_second = vec![false; highest + 1];
    for &line in second {
        is_second[line] = true;
    }
    let mut drawn: Vec<(bool, usize)> = order
        .iter()
        .filter_map(|&line| Some((*is_second.get(line)?, row_of_line[line]?)))
        .collect();
    // The lines of inner columns.
    drawn.dedup();
    let pieces = drawn.chunk_by(|left, right| left.0 == right.0).count();
    let begins_with_second = drawn.first().is_some_and(|(is_second, _)| *is_second);
    let goes_up = [false, true].into_iter().any(|side| {
        let rows: Vec<usize> =
            drawn.iter().filter(|(of, _)| *of == side).map(|(_, row)| *row).collect();
        let upwards = rows.windows(2).filter(|pair| pair[1] < pair[0]).count();
        upwards * 4 > rows.len()
    });
    drawn.len() >= 2 * pieces && !goes_up && !(begins_with_second && pieces == 2)
}

/// Returns the order of lines from the top, if the page is drawn upwards or at random.
pub(crate) fn downwards(lines: &[Line], order: Vec<usize>) -> Vec<usize> {
    /// Maximum number of pieces that are compared with each other.
    const MAX_PIECES: usize = 2_000;
    let pieces = pieces(lines, &order);
    let upwards = pieces.windows(2).filter(|pair| pair[1].is_above(&pair[0])).count();
    if pieces.len() > MAX_PIECES || upwards == 0 || upwards * 2 < pieces.len() - 1 {
        return order;
    }
    let mut is_done = vec![false; pieces.len()];
    let mut sorted = Vec::with_capacity(order.len());
    for piece in 0..pieces.len() {
        push_with_those_above(&pieces, piece, &mut is_done, &mut sorted);
    }
    sorted
}

/// Lines that are drawn one below the other.
struct Piece {
    lines: Vec<usize>,
    start: f64,
    end: f64,
    first_base: f64,
    last_base: f64,
    size: f64,
}

impl Piece {
    fn is_above(&self, other: &Self) -> bool {
        self.last_base < other.first_base - 0.3 * self.size.min(other.size)
            && self.start < other.end
            && other.start < self.end
    }
}

fn pieces(lines: &[Line], order: &[usize]) -> Vec<Piece> {
    let mut pieces: Vec<Piece> = Vec::new();
    for &index in order {
        let line = &lines[index];
        if let Some(piece) = pieces.last_mut() {
            let down = line.base - piece.last_base;
            let is_below = (0.0..2.0 * line.size.max(piece.size)).contains(&down)
                && line.start < piece.end
                && piece.start < line.end;
            let last = piece.lines.last().copied();
            if is_below || last.is_some_and(|last| lines[last].is_beside(line)) {
                piece.lines.push(index);
                piece.start = piece.start.min(line.start);
                piece.end = piece.end.max(line.end);
                piece.last_base = piece.last_base.max(line.base);
                continue;
            }
        }
        pieces.push(Piece {
            lines: vec![index],
            start: line.start,
            end: line.end,
            first_base: line.base,
            last_base: line.base,
            size: line.size,
        });
    }
    pieces
}

/// Appends a piece after all those above it.
fn push_with_those_above(
    pieces: &[Piece],
    piece: usize,
    is_done: &mut [bool],
    sorted: &mut Vec<usize>,
) {
    if is_done[piece] {
        return;
    }
    is_done[piece] = true;
    // From the top, so that each follows those above it.
    let mut above: Vec<usize> = (0..pieces.len())
        .filter(|&other| !is_done[other] && pieces[other].is_above(&pieces[piece]))
        .collect();
    above.sort_by(|&left, &right| pieces[left].first_base.total_cmp(&pieces[right].first_base));
    for other in above {
        is_done[other] = true;
        sorted.extend_from_slice(&pieces[other].lines);
    }
    sorted.extend_from_slice(&pieces[piece].lines);
}
