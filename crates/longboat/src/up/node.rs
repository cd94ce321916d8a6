//! Says for which nodes the node of this machine stands in.

use std::{collections::BTreeSet, convert::Infallible, time::Duration};

use owo_colors::OwoColorize;
use tokio::sync::watch;

use crate::printer;

/// How long to collect what pods ask for. The pods of a manifest are created one after the other, and one line names them
/// all.
const BURST: Duration = Duration::from_millis(500);

/// Prints a line whenever pods ask for more than the node has.
pub(crate) async fn report_stand_ins(mut stood_in_for: watch::Receiver<BTreeSet<String>>) -> Infallible {
    let mut known = BTreeSet::new();
    while stood_in_for.changed().await.is_ok() {
        tokio::time::sleep(BURST).await;
        let now = stood_in_for.borrow_and_update().clone();
        let new: Vec<&str> = now.difference(&known).map(String::as_str).collect();
        if !new.is_empty() {
            printer::note(&format!("{} {}", "node:".bold(), sentence(&new)));
        }
        known = now;
    }
    // With strict scheduling, nothing is ever reported.
    std::future::pending().await
}

fn sentence(new: &[&str]) -> String {
    format!(
        "pretends to be a node with {}, because pods ask for it (with `--strict-scheduling`, they wait instead)",
        new.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_sentence_names_all_labels_and_taints() {
        assert_eq!(
            sentence(&["gpu=A100", "taint team=a"]),
            "pretends to be a node with gpu=A100, taint team=a, because pods ask for it (with `--strict-scheduling`, they \
             wait instead)"
        );
    }
}
