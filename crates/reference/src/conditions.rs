//! The page of conditions, their reasons, and the reasons of events.

use std::fmt::Write as _;

use longboat_api::conditions::ALL;

use crate::{NOTE, cell, differences, sentences::SENTENCES, source};

/// Makes the page from the table of conditions and the source of reasons.
pub(crate) fn page(reasons: &str) -> String {
    let mut page = format!(
        "# Conditions and reasons\n\n{NOTE}\n\n`kubectl get llmisvc NAME -o yaml` shows conditions below `status`; `longboat status` \
         shows the conditions that are not true; `longboat doctor` finds their root cause.\n\n## Conditions\n\n| condition | about |\n|---|---|\n"
    );
    for row in ALL {
        let _ = writeln!(page, "| `{}` | {} |", row.type_, cell(row.about.trim()));
    }
    page.push_str(
        "\n## Reasons of conditions\n\nConditions of workloads and autoscalers can have other reasons, which come from the Deployment, the \
         HorizontalPodAutoscaler, KEDA or the Gateway.\n\n| reason | cause | what to do |\n|---|---|---|\n",
    );
    for item in source::constants(source::block(reasons, "pub mod condition {")) {
        let fix = SENTENCES.reasons.get(&item.name).map_or("", String::as_str);
        let _ = writeln!(page, "| `{}` | {} | {} |", item.name, cell(&item.doc), cell(fix));
    }
    page.push_str("\n## Reasons of events\n\n| reason | meaning |\n|---|---|\n");
    for item in source::constants(source::block(reasons, "pub mod event {")) {
        let _ = writeln!(page, "| `{}` | {} |", item.name, cell(&item.doc));
    }
    page
}

/// Reasons without advice, and advice about what does not exist.
pub(crate) fn gaps(reasons: &str) -> Vec<String> {
    let known = source::constants(source::block(reasons, "pub mod condition {"));
    let told = SENTENCES.reasons.keys().map(String::as_str);
    differences("reason", known.iter().map(|item| item.name.as_str()), told)
}
