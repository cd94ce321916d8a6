//! `by-label` (deprecated): keeps endpoints whose label has one of some values.

use super::label_selector;
use crate::prelude::*;

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct ByLabel {
    label: String,
    valid_values: Vec<String>,
    allows_no_label: bool,
}

pub(crate) fn build(parameters: &Parameters<'_>, _: &mut Builder) -> Result<Plugin, ConfigError> {
    let filter: ByLabel = parameters.read()?;
    parameters.require(!filter.label.is_empty(), "label", "it is required")?;
    parameters.require(
        !filter.valid_values.is_empty() || filter.allows_no_label,
        "validValues",
        "it is required unless allowsNoLabel is true",
    )?;
    label_selector::check(parameters, "label", &filter.label, [])?;
    label_selector::check(parameters, "validValues", &filter.label, &filter.valid_values)?;
    Ok(Plugin::filter(filter))
}

impl Filter for ByLabel {
    fn filter(&self, context: &Context<'_>, candidates: &mut Vec<Candidate>) {
        candidates.retain(|&candidate| {
            context
                .endpoint(candidate)
                .labels
                .get(&self.label)
                .map_or(self.allows_no_label, |value| self.valid_values.contains(value))
        });
    }
}
