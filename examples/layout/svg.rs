//! The picture as an SVG file that needs nothing else.

use std::fmt::Write;

use crate::picture::{Bar, Overlap, Picture, bytes, count, thousands};
use crate::scale::ellipsis;

const WIDTH: f64 = 1240.0;
const LEFT: f64 = 120.0;
const RIGHT: f64 = 36.0;
const PLOT: f64 = WIDTH - LEFT - RIGHT;
/// How wide a unit should be, to be seen and pointed at.
const BAR_WIDTH: f64 = 4.0;
/// How high the lines that an axis is broken into may be together.
const MOST_HEIGHT: f64 = 2600.0;
const MOST_SLICES: usize = 64;

const COLORS: [&str; 8] = [
    "#4e79a7", "#f28e2b", "#59a14f", "#b07aa1", "#76b7b2", "#edc948", "#9c755f", "#7f7ec4",
];
const NO_SLICE: &str = "#8792a2";
const RED: &str = "#d62728";
const STYLE: &str = "text{font-family:system-ui,'Segoe UI',Helvetica,Arial,sans-serif;fill:#2b3440}\
.t{font-size:19px;font-weight:600}.f{font-size:13px}.w{font-size:13px;fill:#a3341f}.s{font-size:11px;fill:#5b6673}\
.n{font-size:10px;fill:#fff;pointer-events:none}.b{stroke:#fff}.b:hover{stroke:#111;stroke-width:1.5px}";

/// A stretch of the axis that is drawn as one line.
struct Line {
    from: f64,
    to: f64,
}

impl Line {
    fn x(&self, at: f64) -> f64 {
        LEFT + (at - self.from) / (self.to - self.from) * PLOT
    }

    /// The part of `from..to` in this line, at least `least` wide.
    fn clip(&self, from: f64, to: f64, least: f64) -> Option<(f64, f64)> {
        let inside = from < self.to && to > self.from;
        let at_a_point = from == to && self.from <= from && (from < self.to || to >= 1.0);
        if !(inside || at_a_point) {
            return None;
        }
        let start = self.x(from.max(self.from));
        let width = (self.x(to.min(self.to)) - start).max(least);
        Some((start.min(LEFT + PLOT - width), width))
    }
}

/// What is drawn so far, from top to bottom.
struct Drawing<'a> {
    picture: &'a Picture<'a>,
    svg: String,
    y: f64,
    lane_height: f64,
}

/// The picture: facts, units over the axis, and how large slices are. A long axis is broken into lines.
pub(crate) fn draw(picture: &Picture<'_>, title: &str) -> String {
    let lanes = picture.lanes.len();
    let mut drawing = Drawing {
        picture,
        svg: String::new(),
        y: 34.0,
        lane_height: match lanes {
            0..=6 => 24.0,
            7..=16 => 16.0,
            17..=48 => 9.0,
            _ => 4.0,
        },
    };
    drawing.header(title);
    let lines = line_count(picture, drawing.lane_height);
    if lines > 1 {
        drawing.heading("all");
        drawing.line(&Line { from: 0.0, to: 1.0 }, false);
        drawing.heading(&format!("the same in {lines} lines"));
        drawing.lane_height = drawing.lane_height.min(14.0);
    }
    for line in 0..lines {
        let end = |line: usize| line as f64 / lines as f64;
        let line = Line {
            from: end(line),
            to: end(line + 1),
        };
        drawing.line(&line, true);
    }
    drawing.slices();
    let height = drawing.y + 10.0;
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height:.0}\" width=\"{WIDTH}\" \
         height=\"{height:.0}\">\n<style>{STYLE}</style>\n<defs><pattern id=\"unknown\" width=\"6\" height=\"6\" \
         patternUnits=\"userSpaceOnUse\" patternTransform=\"rotate(45)\"><rect width=\"6\" height=\"6\" \
         fill=\"#cfd5dd\"/><rect width=\"2\" height=\"6\" fill=\"{NO_SLICE}\"/></pattern></defs>\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n{}</svg>\n",
        drawing.svg
    )
}

/// How many lines it takes for half of the units to be wide enough.
fn line_count(picture: &Picture<'_>, lane_height: f64) -> usize {
    let mut widths: Vec<_> = picture.bars.iter().map(|bar| bar.to - bar.from).collect();
    widths.sort_by(f64::total_cmp);
    let median = widths.get(widths.len() / 2).copied().unwrap_or(1.0);
    let width = median.max(1.0 / widths.len().max(1) as f64) * PLOT;
    let height = picture.lanes.len() as f64 * lane_height.min(14.0) + 44.0;
    let lines = (BAR_WIDTH / width).ceil();
    lines.clamp(1.0, (MOST_HEIGHT / height).max(1.0)) as usize
}

impl Drawing<'_> {
    fn header(&mut self, title: &str) {
        self.text(24.0, self.y, "t", title);
        self.y += 8.0;
        for fact in self.picture.facts() {
            let class = if fact.starts_with("why") { "w" } else { "f" };
            for part in wrap(&fact, 165) {
                self.y += 18.0;
                self.text(24.0, self.y, class, &part);
            }
        }
        let spacing = format!(
            "axis {}; point at a unit to see its file",
            self.picture.scale.name()
        );
        self.y += 18.0;
        self.text(24.0, self.y, "s", &spacing);
        self.y += 22.0;
    }

    fn heading(&mut self, text: &str) {
        self.y += 10.0;
        self.text(24.0, self.y, "s", text);
        self.y += 8.0;
    }

    fn text(&mut self, x: f64, y: f64, class: &str, text: &str) {
        let text = escape(text);
        let _ = writeln!(
            self.svg,
            "<text x=\"{x:.1}\" y=\"{y:.1}\" class=\"{class}\">{text}</text>"
        );
    }

    fn rect(&mut self, (x, width): (f64, f64), y: f64, height: f64, rest: &str) {
        let _ = writeln!(
            self.svg,
            "<rect x=\"{x:.2}\" y=\"{y:.2}\" width=\"{width:.2}\" height=\"{height:.2}\" {rest}/>"
        );
    }

    /// The lanes over one stretch of the axis, with `details` for each unit.
    fn line(&mut self, line: &Line, details: bool) {
        let top = self.y;
        let lanes = self.picture.lanes.len();
        let bottom = top + lanes as f64 * self.lane_height;
        for lane in 0..lanes {
            let y = top + lane as f64 * self.lane_height;
            let fill = if lane % 2 == 0 { "#f3f5f8" } else { "#fafbfc" };
            self.rect(
                (LEFT, PLOT),
                y,
                self.lane_height,
                &format!("fill=\"{fill}\""),
            );
            if self.lane_height >= 9.0 {
                let name = ellipsis(&self.picture.lanes[lane], 16);
                self.text(24.0, y + self.lane_height / 2.0 + 4.0, "s", &name);
            }
        }
        if self.lane_height < 9.0 {
            let y = f64::midpoint(top, bottom);
            self.text(24.0, y, "s", &format!("{lanes} runs"));
        }
        self.overlaps(line, top, bottom);
        if details {
            for bar in &self.picture.bars {
                self.bar(line, bar, top);
            }
        } else {
            self.blocks(line, top);
        }
        self.y = bottom;
        self.depths(line);
        self.axis(line);
    }

    /// What overlaps, behind the units.
    fn overlaps(&mut self, line: &Line, top: f64, bottom: f64) {
        for overlap in &self.picture.overlaps {
            if let Some(place) = line.clip(overlap.from, overlap.to, 0.5) {
                let rest = format!("fill=\"{RED}\" fill-opacity=\"0.13\"");
                self.rect(place, top, bottom - top, &rest);
            }
        }
    }

    /// How many units overlap, below them.
    fn depths(&mut self, line: &Line) {
        const HEIGHT: f64 = 18.0;
        let deepest = self.picture.report.depth;
        let is_here = |overlap: &Overlap| line.clip(overlap.from, overlap.to, 0.5).is_some();
        if !self.picture.overlaps.iter().any(is_here) {
            return;
        }
        self.y += 4.0;
        self.text(24.0, self.y + 13.0, "s", &format!("overlap, to {deepest}"));
        for overlap in &self.picture.overlaps {
            let Some((x, width)) = line.clip(overlap.from, overlap.to, 0.5) else {
                continue;
            };
            let height = HEIGHT * overlap.depth as f64 / deepest.max(overlap.depth) as f64;
            let y = self.y + HEIGHT - height;
            let _ = writeln!(
                self.svg,
                "<rect x=\"{x:.2}\" y=\"{y:.2}\" width=\"{width:.2}\" height=\"{height:.2}\" fill=\"{RED}\" \
                 fill-opacity=\"0.75\"><title>{} over one key</title></rect>",
                count(overlap.depth, "unit")
            );
        }
        self.y += HEIGHT;
    }

    fn bar(&mut self, line: &Line, bar: &Bar, top: f64) {
        let Some((x, width)) = line.clip(bar.from, bar.to, 1.2) else {
            return;
        };
        let gap = (self.lane_height / 10.0).min(2.0);
        let y = top + bar.lane as f64 * self.lane_height + gap;
        let height = self.lane_height - 2.0 * gap;
        let fill = match self.picture.unit(bar).bounds {
            Some(_) => self.color(bar),
            None => "url(#unknown)",
        };
        let (opacity, stroke) = (
            if bar.is_odd { 0.72 } else { 1.0 },
            if width > 3.0 { 0.8 } else { 0.0 },
        );
        let _ = writeln!(
            self.svg,
            "<rect class=\"b\" x=\"{x:.2}\" y=\"{y:.2}\" width=\"{width:.2}\" height=\"{height:.2}\" rx=\"{:.1}\" \
             fill=\"{fill}\" fill-opacity=\"{opacity}\" stroke-width=\"{stroke}\"><title>{}</title></rect>",
            (width / 4.0).min(2.5),
            escape(&self.tooltip(bar))
        );
        let room = (width / 6.4) as usize;
        let unit = self.picture.unit(bar);
        if room >= 8 && self.lane_height >= 14.0 && unit.bounds.is_some() {
            let name = unit.file.rsplit('/').next().unwrap_or_default();
            let name = name.strip_suffix(".parquet").unwrap_or(name);
            self.text(
                x + 5.0,
                y + height / 2.0 + 3.5,
                "n",
                &ellipsis(name, room - 1),
            );
        }
    }

    /// Units that stand side by side in one lane and slice, drawn as one.
    fn blocks(&mut self, line: &Line, top: f64) {
        let pixel = 1.0 / PLOT;
        let mut open: Vec<Option<(f64, f64, &str)>> = vec![None; self.picture.lanes.len()];
        let mut blocks = vec![];
        for bar in &self.picture.bars {
            let color = self.color(bar);
            match &mut open[bar.lane] {
                Some((_, to, of)) if *of == color && bar.from - *to < pixel => {
                    *to = bar.to.max(*to)
                }
                other => {
                    let begun = other.replace((bar.from, bar.to, color));
                    blocks.extend(begun.map(|block| (bar.lane, block)));
                }
            }
        }
        let open = open.into_iter().enumerate();
        blocks.extend(open.filter_map(|(lane, block)| Some((lane, block?))));
        for (lane, (from, to, color)) in blocks {
            if let Some(place) = line.clip(from, to, 1.0) {
                let y = top + lane as f64 * self.lane_height + 1.0;
                self.rect(
                    place,
                    y,
                    self.lane_height - 2.0,
                    &format!("fill=\"{color}\""),
                );
            }
        }
    }

    fn color(&self, bar: &Bar) -> &'static str {
        let slice = self.picture.unit(bar).slice;
        slice.map_or(NO_SLICE, |slice| COLORS[slice % COLORS.len()])
    }

    fn tooltip(&self, bar: &Bar) -> String {
        let unit = self.picture.unit(bar);
        let mut text = unit.file.clone();
        if let Some(groups) = unit.row_groups.as_ref().filter(|groups| !groups.is_empty()) {
            let _ = match groups.len() {
                1 => write!(text, "\nrow group {}", groups.start),
                _ => write!(text, "\nrow groups {} to {}", groups.start, groups.end - 1),
            };
        }
        let _ = match &unit.bounds {
            Some(bounds) => write!(text, "\nfrom {}\nto {}", bounds.lower, bounds.upper),
            None => write!(text, "\nbounds unknown"),
        };
        if let Some(rows) = unit.rows {
            let _ = write!(text, "\n{} rows, {}", thousands(rows), bytes(unit.bytes));
        }
        if let Some(nulls) = unit.null_count.filter(|nulls| *nulls > 0) {
            let _ = write!(text, ", {} NULL", thousands(nulls));
        }
        let _ = match unit.slice {
            Some(slice) => write!(
                text,
                "\nslice {slice}, run {}, cluster {}",
                unit.run, unit.cluster
            ),
            None => write!(text, "\nrun {}, cluster {}", unit.run, unit.cluster),
        };
        text
    }

    fn axis(&mut self, line: &Line) {
        let y = self.y + 3.0;
        self.rect((LEFT, PLOT), y, 1.0, "fill=\"#9aa5b1\"");
        let mut free = LEFT - 30.0;
        for tick in self.picture.scale.ticks(line.from, line.to, 7) {
            let x = line.x(tick.at);
            let half = tick.label.chars().count() as f64 * 3.1;
            let middle = x.clamp(LEFT - 20.0 + half, WIDTH - 8.0 - half);
            if middle - half < free {
                continue;
            }
            free = middle + half + 14.0;
            self.rect((x - 0.5, 1.0), y, 5.0, "fill=\"#9aa5b1\"");
            let _ = writeln!(
                self.svg,
                "<text x=\"{middle:.1}\" y=\"{:.1}\" class=\"s\" text-anchor=\"middle\">{}</text>",
                y + 17.0,
                escape(&tick.label)
            );
        }
        self.y += 34.0;
    }

    /// How large each slice is, with the mean as a line.
    fn slices(&mut self) {
        let slices = &self.picture.slices;
        if slices.len() < 2 || slices.len() > MOST_SLICES {
            return;
        }
        let most = slices
            .iter()
            .map(|slice| slice.bytes)
            .max()
            .unwrap_or(0)
            .max(1) as f64;
        let mean = slices.iter().map(|slice| slice.bytes).sum::<u64>() as f64 / slices.len() as f64;
        let height = if slices.len() > 16 { 12.0 } else { 18.0 };
        let scale = |bytes: f64| (bytes / most * PLOT * 0.66).max(1.0);
        self.heading("bytes of each slice");
        let top = self.y;
        for slice in slices {
            let width = scale(slice.bytes as f64);
            let color = COLORS[slice.slice % COLORS.len()];
            let text_y = self.y + height / 2.0 + 3.0;
            self.rect(
                (LEFT, width),
                self.y,
                height - 3.0,
                &format!("rx=\"2\" fill=\"{color}\""),
            );
            self.text(24.0, text_y, "s", &format!("slice {}", slice.slice));
            let rows = slice
                .rows
                .map_or(String::new(), |rows| format!(", {} rows", thousands(rows)));
            let total = format!(
                "{}, {}{rows}",
                bytes(slice.bytes),
                count(slice.units, "unit")
            );
            self.text(LEFT + width.max(scale(mean)) + 8.0, text_y, "s", &total);
            self.y += height;
        }
        let x = LEFT + scale(mean);
        self.rect(
            (x, 1.0),
            top - 4.0,
            self.y - top + 5.0,
            "fill=\"#2b3440\" fill-opacity=\"0.6\"",
        );
        self.text(x + 4.0, self.y + 12.0, "s", "mean");
        self.y += 20.0;
    }
}

fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            // XML has no place for other control characters.
            control if control.is_control() && control != '\n' => escaped.push('\u{FFFD}'),
            other => escaped.push(other),
        }
    }
    escaped
}

/// `text` in parts of at most about `most` characters, broken at spaces.
fn wrap(text: &str, most: usize) -> Vec<String> {
    let mut parts = vec![String::new()];
    for word in text.split(' ') {
        let last = parts.len() - 1;
        if !parts[last].is_empty() && parts[last].chars().count() + word.chars().count() > most {
            parts.push(word.to_owned());
            continue;
        }
        if !parts[last].is_empty() {
            parts[last].push(' ');
        }
        parts[last].push_str(word);
    }
    parts
}
