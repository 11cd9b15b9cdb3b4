//! The picture as text.

use std::fmt::Write;

use crate::picture::{Bar, Picture, bytes, count};
use crate::scale::ellipsis;

/// How text is drawn.
pub(crate) struct Style {
    pub(crate) width: usize,
    pub(crate) color: bool,
}

/// More lanes than these are counted, not drawn.
const MOST_LANES: usize = 24;
/// The colours of slices among the 256 of terminals.
const COLORS: [u8; 8] = [74, 214, 71, 176, 80, 221, 137, 105];
const RED: u8 = 203;

/// A character with its colour.
type Cell = (char, Option<u8>);

/// The picture: facts, a line for each lane with the axis below, and where units overlap.
pub(crate) fn draw(picture: &Picture<'_>, style: &Style) -> String {
    let names = picture.lanes.iter().take(MOST_LANES);
    let margin = names
        .map(|name| name.chars().count())
        .max()
        .unwrap_or(0)
        .max(7)
        + 1;
    let columns = style.width.saturating_sub(margin).max(20);
    let mut text = String::new();
    for fact in picture.facts() {
        let _ = writeln!(text, "{fact}");
    }
    text.push('\n');
    for (lane, name) in picture.lanes.iter().enumerate().take(MOST_LANES) {
        let bars = picture.bars.iter().filter(|bar| bar.lane == lane);
        let cells = lane_cells(picture, bars, columns);
        line(&mut text, name, margin, &cells, style);
    }
    if let Some(more) = picture
        .lanes
        .len()
        .checked_sub(MOST_LANES)
        .filter(|more| *more > 0)
    {
        let _ = writeln!(text, "{:margin$}… and {more} more", "");
    }
    if picture.slices_share_lanes() {
        line(
            &mut text,
            "slice",
            margin,
            &slice_cells(picture, columns),
            style,
        );
    }
    if !picture.overlaps.is_empty() {
        line(
            &mut text,
            "overlap",
            margin,
            &overlap_cells(picture, columns),
            style,
        );
    }
    axis(&mut text, picture, margin, columns);
    slices(&mut text, picture, style);
    text
}

fn line(text: &mut String, name: &str, margin: usize, cells: &[Cell], style: &Style) {
    let _ = write!(text, "{name:margin$}");
    let mut current = None;
    for &(character, color) in cells {
        if style.color && color != current {
            let _ = match color {
                Some(color) => write!(text, "\x1b[38;5;{color}m"),
                None => write!(text, "\x1b[0m"),
            };
            current = color;
        }
        text.push(character);
    }
    if current.is_some() {
        text.push_str("\x1b[0m");
    }
    while text.ends_with(' ') {
        text.pop();
    }
    text.push('\n');
}

fn color_of(picture: &Picture<'_>, bar: &Bar) -> Option<u8> {
    Some(COLORS[picture.unit(bar).slice? % COLORS.len()])
}

/// Each cell is of the unit that covers most of it; several that begin in one are shown as such.
fn lane_cells<'a>(
    picture: &Picture<'_>,
    bars: impl Iterator<Item = &'a Bar>,
    columns: usize,
) -> Vec<Cell> {
    let mut cells: Vec<Cell> = vec![('·', None); columns];
    let mut covered = vec![0.0; columns];
    let mut begun = vec![0; columns];
    let scale = columns as f64;
    for bar in bars {
        let (from, to) = (bar.from * scale, bar.to * scale);
        let first = (from as usize).min(columns - 1);
        let last = (to.ceil() as usize).clamp(first + 1, columns);
        begun[first] += 1;
        for cell in first..last {
            let share = (to.min(cell as f64 + 1.0) - from.max(cell as f64)).max(1e-6);
            if share <= covered[cell] {
                continue;
            }
            covered[cell] = share;
            let glyph = match (&picture.unit(bar).bounds, bar.is_odd) {
                (None, _) => '?',
                (_, false) => '█',
                (_, true) => '▓',
            };
            cells[cell] = (glyph, color_of(picture, bar));
        }
    }
    for (cell, begun) in cells.iter_mut().zip(begun) {
        if begun > 1 {
            cell.0 = '▒';
        }
    }
    cells
}

/// Where each slice begins.
fn slice_cells(picture: &Picture<'_>, columns: usize) -> Vec<Cell> {
    let mut cells: Vec<Cell> = vec![(' ', None); columns];
    let mut last = None;
    let mut free = 0;
    for bar in &picture.bars {
        let slice = picture.unit(bar).slice;
        let place = ((bar.from * columns as f64).round() as usize).min(columns - 1);
        if slice == last || place < free {
            continue;
        }
        last = slice;
        let name = slice.map_or(String::new(), |slice| slice.to_string());
        free = place + name.len() + 1;
        for (cell, digit) in cells[place..].iter_mut().zip(name.chars()) {
            *cell = (digit, color_of(picture, bar));
        }
    }
    cells
}

fn overlap_cells(picture: &Picture<'_>, columns: usize) -> Vec<Cell> {
    let mut depths = vec![0; columns];
    for overlap in &picture.overlaps {
        let first = ((overlap.from * columns as f64) as usize).min(columns - 1);
        let last = ((overlap.to * columns as f64).ceil() as usize).clamp(first + 1, columns);
        for depth in &mut depths[first..last] {
            *depth = overlap.depth.max(*depth);
        }
    }
    let cell = |depth: usize| match u32::try_from(depth)
        .ok()
        .and_then(|d| char::from_digit(d, 10))
    {
        _ if depth == 0 => (' ', None),
        Some(digit) => (digit, Some(RED)),
        None => ('+', Some(RED)),
    };
    depths.into_iter().map(cell).collect()
}

/// The axis with its labels, each of which begins below its place or ends there.
fn axis(text: &mut String, picture: &Picture<'_>, margin: usize, columns: usize) {
    let mut ruler = vec!['─'; columns];
    let mut labels = vec![' '; columns];
    let mut free = 0;
    for tick in picture.scale.ticks(0.0, 1.0, (columns / 22).max(2)) {
        let place = ((tick.at * columns as f64) as usize).min(columns - 1);
        let label: Vec<_> = ellipsis(&tick.label, columns / 3).chars().collect();
        let start = place.min(columns.saturating_sub(label.len()));
        if start < free {
            continue;
        }
        ruler[place] = '┴';
        free = start + label.len() + 1;
        labels[start..start + label.len()].copy_from_slice(&label);
    }
    for characters in [ruler, labels] {
        let characters: String = characters.into_iter().collect();
        let _ = writeln!(text, "{:margin$}{}", "", characters.trim_end());
    }
}

/// How large each slice is, as long as they are few.
fn slices(text: &mut String, picture: &Picture<'_>, style: &Style) {
    let slices = &picture.slices;
    let largest = slices
        .iter()
        .map(|slice| slice.bytes)
        .max()
        .unwrap_or(0)
        .max(1);
    if slices.len() < 2 || slices.len() > MOST_LANES {
        return;
    }
    text.push('\n');
    let most = style.width.saturating_sub(44).clamp(10, 40);
    for slice in slices {
        let length = ((slice.bytes as f64 / largest as f64 * most as f64).round() as usize).max(1);
        let color = COLORS[slice.slice % COLORS.len()];
        let mut cells: Vec<Cell> = vec![('█', Some(color)); length];
        let total = format!(" {}, {}", bytes(slice.bytes), count(slice.units, "unit"));
        cells.extend(total.chars().map(|character| (character, None)));
        line(text, &format!("slice {}", slice.slice), 10, &cells, style);
    }
}
