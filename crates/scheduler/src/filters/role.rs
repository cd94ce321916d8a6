//! `prefill-filter`, `decode-filter`, `encode-filter`: keep endpoints by the role in their label.

use std::collections::BTreeMap;

use longboat_api::labels;

use crate::{flow::Stage, prelude::*};

pub(crate) struct Role {
    values: &'static [&'static str],
    /// Whether endpoints without the label are kept. They do everything, so they can decode.
    unlabelled: bool,
}

pub(crate) const PREFILL: Role = Role {
    values: &["prefill", "encode-prefill", "prefill-decode", "both", "encode-prefill-decode"],
    unlabelled: false,
};
pub(crate) const DECODE: Role =
    Role { values: &["decode", "prefill-decode", "both", "encode-prefill-decode"], unlabelled: true };
pub(crate) const ENCODE: Role =
    Role { values: &["encode", "encode-prefill", "encode-prefill-decode"], unlabelled: false };

/// Whether an endpoint with these labels takes part in a stage.
pub(crate) fn serves(labels: &BTreeMap<String, String>, stage: Stage) -> bool {
    match stage {
        Stage::Prefill => PREFILL.keeps(labels),
        Stage::Decode => DECODE.keeps(labels),
    }
}

impl Role {
    fn keeps(&self, labels: &BTreeMap<String, String>) -> bool {
        labels.get(labels::ROLE).map_or(self.unlabelled, |role| self.values.contains(&role.as_str()))
    }
}

impl Filter for Role {
    fn filter(&self, context: &Context<'_>, candidates: &mut Vec<Candidate>) {
        candidates.retain(|&candidate| self.keeps(&context.endpoint(candidate).labels));
    }
}
