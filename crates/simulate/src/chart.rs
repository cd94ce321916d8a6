//! Line charts as SVG.

use std::fmt::Write as _;

const WIDTH: f64 = 560.0;
const HEIGHT: f64 = 220.0;
const LEFT: f64 = 56.0;
const BOTTOM: f64 = 24.0;
const TOP: f64 = 10.0;

/// A line: points from left to right.
pub(crate) struct Line {
    /// The colour's number, which the page's style knows.
    pub(crate) colour: usize,
    pub(crate) points: Vec<(f64, f64)>,
}

/// Draws lines over a common scale that begins at 0.
pub(crate) fn lines(label: &str, x_unit: &str, lines: &[Line]) -> String {
    let all = || lines.iter().flat_map(|line| line.points.iter());
    let highest = |of: fn(&(f64, f64)) -> f64| all().map(of).fold(0.0, f64::max);
    let (x_end, y_end) = (positive(highest(|point| point.0)), positive(highest(|point| point.1)));
    let x = |value: f64| LEFT + value / x_end * (WIDTH - LEFT - 10.0);
    let y = |value: f64| HEIGHT - BOTTOM - value / y_end * (HEIGHT - BOTTOM - TOP);
    let mut svg = format!("<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{label}\">");
    for part in [0.0, 0.5, 1.0] {
        let at = y(y_end * part);
        let _ = write!(
            svg,
            "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/><text x=\"{}\" y=\"{:.1}\" \
             text-anchor=\"end\">{}</text>",
            WIDTH - 10.0,
            LEFT - 6.0,
            at + 4.0,
            number(y_end * part)
        );
        let _ = write!(
            svg,
            "<text x=\"{:.1}\" y=\"{}\" text-anchor=\"middle\">{}{}</text>",
            x(x_end * part).min(WIDTH - 24.0),
            HEIGHT - 6.0,
            number(x_end * part),
            x_unit
        );
    }
    for line in lines {
        let points: Vec<String> =
            line.points.iter().map(|(at, value)| format!("{:.1},{:.1}", x(*at), y(*value))).collect();
        let _ = write!(svg, "<polyline class=\"c{}\" points=\"{}\"/>", line.colour, points.join(" "));
    }
    svg.push_str("</svg>");
    svg
}

fn positive(value: f64) -> f64 {
    if value > 0.0 { value } else { 1.0 }
}

/// Formats a number with about three digits.
pub(crate) fn number(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        small if small < 10.0 => format!("{value:.2}"),
        medium if medium < 100.0 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}
