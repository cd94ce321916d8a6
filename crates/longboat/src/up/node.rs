//! Says for which nodes the node of this machine stands in, and what its pods lack.

use std::{collections::BTreeSet, convert::Infallible, time::Duration};

use longboat_node::Engine;
use owo_colors::OwoColorize;
use tokio::sync::watch;

use crate::printer;

/// How long to collect what pods ask for. The pods of a manifest are created one after the other, and one line names them
/// all.
const BURST: Duration = Duration::from_millis(500);

/// Prints a line whenever pods ask for more than the node has.
pub(crate) struct StandInReport {
    stood_in_for: watch::Receiver<BTreeSet<String>>,
    known: BTreeSet<String>,
}

// === impl StandInReport ===

impl StandInReport {
    pub(crate) fn new(stood_in_for: watch::Receiver<BTreeSet<String>>) -> Self {
        Self { stood_in_for, known: BTreeSet::new() }
    }

    pub(crate) async fn run(&mut self) -> Infallible {
        while self.stood_in_for.changed().await.is_ok() {
            tokio::time::sleep(BURST).await;
            self.print();
        }
        // With strict scheduling, nothing is ever reported.
        std::future::pending().await
    }

    /// Prints what is not printed yet. A service may be ready, and `up --once` at its end, before a burst is over.
    pub(crate) fn print(&mut self) {
        let now = self.stood_in_for.borrow_and_update().clone();
        let new: Vec<&str> = now.difference(&self.known).map(String::as_str).collect();
        if !new.is_empty() {
            printer::labelled("node:", sentence(&new));
        }
        self.known = now;
    }
}

/// Says that pods do not see volumes at the paths of their manifests, and why. Only programs that are not ours mind.
pub(crate) fn rewritten_paths(reason: Option<&str>, engine: &Engine) -> Option<String> {
    let reason = reason.filter(|_| matches!(engine, Engine::Command(_)))?;
    Some(format!(
        "{} volumes have other paths in each pod, because pods have no mount namespaces ({reason}); an engine that \
         compares paths between pods, such as vLLM with NIXL, or has a mount path in its own files, may fail",
        "node:".bold()
    ))
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
    fn other_paths_are_only_mentioned_to_engines_that_are_not_ours() {
        let own = Engine::Command("vllm".into());
        assert!(rewritten_paths(Some("no rights"), &own).unwrap().contains("(no rights)"));
        assert_eq!(rewritten_paths(Some("no rights"), &Engine::Simulator), None);
        assert_eq!(rewritten_paths(None, &own), None);
    }

    #[test]
    fn one_sentence_names_all_labels_and_taints() {
        assert_eq!(
            sentence(&["gpu=A100", "taint team=a"]),
            "pretends to be a node with gpu=A100, taint team=a, because pods ask for it (with `--strict-scheduling`, they \
             wait instead)"
        );
    }
}
