//! The pages of differences from the reference, from `compatibility.yaml`.

use std::fmt::Write as _;

use longboat_golden::compatibility::{Area, Deviation, Kind, Page, areas};
use longboat_scheduler::REFUSED;

use crate::{NOTE, cell};

const KINDS: &str = "*take-over*: something that worked changes when Longboat replaces KServe's controller. *stricter*: Longboat \
     refuses, limits or removes more. *looser*: it accepts or carries out more. *different*: the result is another one. *wording*: \
     only texts differ. *missing*: Longboat lacks it. *same*: no difference, where one would expect it.";

/// COMPATIBILITY.md.
pub(crate) fn overview() -> String {
    let mut page = format!(
        "# Compatibility\n\n{NOTE} The source is `compatibility.yaml`.\n\nLongboat serves KServe's `LLMInferenceService` API. \
         Longboat behaves like the *reference*: KServe's controller (master of 2026-08-21) and llm-d's router (v0.10.0). It \
         follows what KServe has merged for 0.21 since then (seen up to its commits `066afea1` and `7b5710d9`) and the \
         configuration of llm-d's router 0.11, but no branches and proposals. Every intended difference has an entry. Tests \
         that tolerate a difference cite its id.\n\n## Before you replace KServe's controller\n\n"
    );
    page.push_str(&take_over_table());
    for (name, title, about) in [
        (Page::Authors, "For authors of manifests, gateways and pickers", "docs/compatibility/authors.md"),
        (Page::Rest, "Everything else, and what is missing", "docs/compatibility/rest.md"),
    ] {
        let _ = write!(page, "\n## [{title}]({about})\n\n");
        for area in areas().iter().filter(|area| area.page == name) {
            let _ =
                writeln!(page, "* [{}]({about}#{}): {}", area.title, anchor(&area.title), area.entries.len());
        }
    }
    page
}

/// The page of what an operator must know.
pub(crate) fn take_over() -> String {
    let page = format!(
        "# Before you replace KServe's controller\n\n{NOTE}\n\n[From KServe](../guides/from-kserve.md) describes the way there \
         and back, and `longboat diff` lists what would change in your cluster. Know this before:\n\n{}\n\
         Other differences: [for authors of manifests, gateways and pickers](authors.md), [everything else](rest.md).\n",
        take_over_table()
    );
    in_book(&page)
}

/// The page for those who write manifests, or programs that talk to Longboat's objects and pickers.
pub(crate) fn authors() -> String {
    tables(
        "Differences for authors of manifests, gateways and pickers",
        "What differs in services and their objects, in routes, and in the picker.",
        Page::Authors,
    )
}

/// The page of everything else.
pub(crate) fn rest() -> String {
    let mut page = tables(
        "All other differences, and what is missing",
        "What differs for those who operate Longboat or use `longboat up`, and what Longboat lacks.",
        Page::Rest,
    );
    page.push_str("\nMissing, in [the tables for authors](authors.md):\n\n");
    for area in areas().iter().filter(|area| area.page == Page::Authors) {
        for missing in area.entries.iter().filter(|deviation| deviation.kind == Kind::Missing) {
            let _ = writeln!(page, "* [{}](authors.md#{})", missing.what, missing.id);
        }
    }
    page
}

/// What changes at a take-over. `why` is in the tables of the areas.
fn take_over_table() -> String {
    let mut table = "| what | KServe's controller | Longboat | what to do |\n|---|---|---|---|\n".to_owned();
    for deviation in areas().iter().flat_map(|area| &area.entries) {
        if let Some(action) = &deviation.action {
            row(&mut table, &[&deviation.what, &deviation.reference, &deviation.ours, action]);
        }
    }
    table
}

/// A page with the tables of its areas.
fn tables(title: &str, about: &str, of: Page) -> String {
    let mut page = format!("# {title}\n\n{NOTE}\n\n{about}\n\n{KINDS}\n");
    for area in areas().iter().filter(|area| area.page == of) {
        let _ = write!(page, "\n## {}\n\n", area.title);
        if let Some(about) = &area.about {
            let _ = write!(page, "{about}\n\n");
        }
        entries(&mut page, area);
        if area.area == "plugins" {
            refused(&mut page);
        }
    }
    in_book(&page)
}

fn entries(page: &mut String, area: &Area) {
    let what = |deviation: &Deviation| format!("<a id=\"{}\"></a>{}", deviation.id, deviation.what);
    // Of a quirk, both do the same.
    if area.entries.iter().all(|deviation| deviation.kind == Kind::Quirk) {
        page.push_str("| what | what happens | why |\n|---|---|---|\n");
        for deviation in &area.entries {
            row(page, &[&what(deviation), &deviation.reference, &deviation.why]);
        }
        return;
    }
    let _ = writeln!(page, "| what | kind | {} | Longboat | why |\n|---|---|---|---|---|", area.reference);
    for deviation in &area.entries {
        let kind = deviation.kind.to_string();
        row(page, &[&what(deviation), &kind, &deviation.reference, &deviation.ours, &deviation.why]);
    }
}

/// The types of plugins that the picker refuses, from its own table.
fn refused(page: &mut String) {
    page.push_str("\n| type | it would need |\n|---|---|\n");
    for (name, needs) in REFUSED {
        row(page, &[&format!("`{name}`"), needs]);
    }
}

fn row(table: &mut String, cells: &[&str]) {
    let cells: Vec<String> = cells.iter().map(|text| cell(text)).collect();
    let _ = writeln!(table, "| {} |", cells.join(" | "));
}

/// Makes links relative to a folder of the book.
fn in_book(page: &str) -> String {
    page.replace("](docs/", "](../")
}

/// The anchor of a heading, as mdbook and the common forges spell it.
fn anchor(heading: &str) -> String {
    let kept = heading
        .to_lowercase()
        .chars()
        .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'))
        .collect::<String>();
    kept.replace(' ', "-")
}
