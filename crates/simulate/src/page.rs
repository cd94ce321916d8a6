//! A web page with the results of runs side by side. It has no scripts and loads nothing.

use std::fmt::Write as _;

use crate::{
    chart::{self, Line},
    report::Report,
};

const STYLE: &str = ":root{color-scheme:light dark}body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:76rem;padding:0 1rem}\
table{border-collapse:collapse}td,th{padding:.2rem .9rem;text-align:right;border-bottom:1px solid #8884}td:first-child,th:first-child{text-align:left}\
.charts{display:grid;grid-template-columns:repeat(auto-fit,minmax(28rem,1fr));gap:1rem}figure{margin:0}svg{width:100%}\
svg text{font-size:11px;fill:currentColor}.grid{stroke:#8884}polyline{fill:none;stroke-width:2}\
.c0{stroke:#2563eb}.c1{stroke:#d97706}.c2{stroke:#059669}.c3{stroke:#dc2626}.c4{stroke:#7c3aed}.c5{stroke:#0891b2}\
.key{display:inline-block;width:1.2rem;height:0;border-top:3px solid;margin-right:.4rem;vertical-align:middle}\
.k0{border-color:#2563eb}.k1{border-color:#d97706}.k2{border-color:#059669}.k3{border-color:#dc2626}.k4{border-color:#7c3aed}.k5{border-color:#0891b2}";
const COLOURS: usize = 6;

/// A row of the table: its name, and a value for each report.
pub type TableRow = (&'static str, Vec<String>);

/// Returns the rows of the table that people read.
pub fn rows(reports: &[Report]) -> Vec<TableRow> {
    let row = |name, value: &dyn Fn(&Report) -> String| (name, reports.iter().map(value).collect());
    // Without an answer, there are no times, and 0 ms would look like the best ones.
    let time = |report: &Report, value: f64| {
        if report.answered == 0 { "–".to_owned() } else { format!("{} ms", chart::number(value)) }
    };
    let percent = |value: f64| format!("{:.1} %", value * 100.0);
    vec![
        row("requests", &|report| report.requests.to_string()),
        row("answered", &|report| report.answered.to_string()),
        row("TTFT p50", &|report| time(report, report.ttft.p50)),
        row("TTFT p90", &|report| time(report, report.ttft.p90)),
        row("TTFT p99", &|report| time(report, report.ttft.p99)),
        row("ITL p50", &|report| time(report, report.itl.p50)),
        row("ITL p90", &|report| time(report, report.itl.p90)),
        row("ITL p99", &|report| time(report, report.itl.p99)),
        row("E2E p50", &|report| time(report, report.e2e.p50)),
        row("E2E p90", &|report| time(report, report.e2e.p90)),
        row("E2E p99", &|report| time(report, report.e2e.p99)),
        row("goodput", &|report| {
            format!("{} ({}/s)", percent(report.goodput), chart::number(report.good_per_second))
        }),
        row("hit ratio", &|report| percent(report.hit_ratio)),
        row("skew", &|report| format!("{:.3}", report.skew)),
        row("rejected", &|report| {
            let parts = report.rejections.by_reason().into_iter().filter(|(count, ..)| *count > 0);
            let parts: Vec<String> = parts.map(|(count, name, _)| format!("{count} {name}")).collect();
            if parts.is_empty() { "0".to_owned() } else { parts.join(", ") }
        }),
        row("endpoints", &|report| report.endpoints.to_string()),
        row("GPU seconds", &|report| chart::number(report.gpu_seconds)),
        row("time", &|report| format!("{} s", chart::number(report.seconds))),
    ]
}

/// A part of the page: the runs of a pool.
#[derive(Debug, Clone, Copy)]
pub struct Section<'a> {
    /// Its heading. Empty: none.
    pub heading: &'a str,
    /// The runs, side by side.
    pub reports: &'a [Report],
    /// What stands below the table.
    pub sentences: &'a [String],
}

/// Returns the page.
pub fn html(title: &str, sections: &[Section<'_>]) -> String {
    let title = escaped(title);
    let mut page = format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><meta name=\"viewport\" \
         content=\"width=device-width\"><title>{title}</title><style>{STYLE}</style><h1>{title}</h1>"
    );
    for section in sections {
        add_section(&mut page, section);
    }
    page.push_str("</html>\n");
    page
}

fn add_section(page: &mut String, section: &Section<'_>) {
    let Section { heading, reports, sentences } = section;
    if !heading.is_empty() {
        let _ = write!(page, "<h2>{}</h2>", escaped(heading));
    }
    page.push_str("<table><tr><th></th>");
    for (index, report) in reports.iter().enumerate() {
        let colour = index % COLOURS;
        let _ = write!(page, "<th><span class=\"key k{colour}\"></span>{}</th>", escaped(&report.policy));
    }
    page.push_str("</tr>");
    for (name, values) in rows(reports) {
        let _ = write!(page, "<tr><td>{name}</td>");
        for value in values {
            let _ = write!(page, "<td>{}</td>", escaped(&value));
        }
        page.push_str("</tr>");
    }
    page.push_str("</table><ul>");
    for sentence in *sentences {
        let _ = write!(page, "<li>{}</li>", escaped(sentence));
    }
    page.push_str("</ul>");
    // A sum of pools has no numbers over time.
    if reports.iter().all(|report| report.series.arrivals.is_empty() && report.answered > 0) {
        return;
    }
    page.push_str("<div class=\"charts\">");
    let over_time = |values: fn(&Report) -> &[f64]| -> Vec<Line> {
        lines(reports, |report| {
            let mut at = 0.0;
            let step = report.series.step_seconds;
            let points = values(report).iter().map(|value| {
                at += step;
                (at - step, *value)
            });
            points.collect()
        })
    };
    for (caption, unit, lines) in [
        (
            "Share of requests by time to the first token (ms)",
            " ms",
            lines(reports, |report| report.ttft_curve.clone()),
        ),
        ("Mean time to the first token (ms)", " s", over_time(|report| &report.series.ttft_ms)),
        ("Requests in flight", " s", over_time(|report| &report.series.in_flight)),
        ("Endpoints", " s", over_time(|report| &report.series.endpoints)),
        ("Arrivals a second", " s", over_time(|report| &report.series.arrivals)),
    ] {
        let svg = chart::lines(caption, unit, &lines);
        let _ = write!(page, "<figure><figcaption>{caption}</figcaption>{svg}</figure>");
    }
    page.push_str("</div>");
}

fn lines(reports: &[Report], points: impl Fn(&Report) -> Vec<(f64, f64)>) -> Vec<Line> {
    let line = |(index, report)| Line { colour: index % COLOURS, points: points(report) };
    reports.iter().enumerate().map(line).collect()
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        report::{Recorder, Slo},
        request_times::RequestTimes,
    };

    #[test]
    fn a_page_has_every_number_loads_nothing_and_escapes_names() {
        let mut recorder = Recorder::new(Slo::default());
        recorder.answered(&RequestTimes {
            first_token: 5_000_000,
            finished: 9_000_000,
            output_tokens: 3,
            ..Default::default()
        });
        let mut report = recorder.measured(1);
        report.policy = "<b>&".to_owned();
        let (reports, sentences) = ([report.clone(), report], ["x < y".to_owned()]);
        let section = Section { heading: "", reports: &reports, sentences: &sentences };
        let page = html("a & b", &[section]);
        assert!(
            page.contains("&lt;b&gt;&amp;") && page.contains("x &lt; y") && page.contains("<td>5.0"),
            "{page}"
        );
        assert!(!page.contains("http") && !page.contains("<script") && !page.contains("NaN"), "{page}");
        assert_eq!(page.matches("<svg").count(), 5);
    }
}
