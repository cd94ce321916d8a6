//! What an upgrade to this build would change for the services of a cluster, and how to keep a service as it is.

use std::fmt::Write as _;

use longboat_plan::counted;
use owo_colors::OwoColorize;
use serde::Serialize;
use serde_json::Value;

use crate::{
    diff::{self, Difference, PlanFailure},
    explain::{SetterKind, short},
    scene::Scene,
};

/// The changes of all services.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Upgrade {
    /// Services that would change. Those whose pods stay come first.
    pub services: Vec<ServiceChange>,
    /// The number of services that would not change.
    pub unchanged: usize,
}

/// The changes of one service.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ServiceChange {
    /// The changes, field by field.
    #[serde(flatten)]
    pub difference: Difference,
    /// Fields to set in the spec to keep the service as it is, because presets change them.
    pub pins: Vec<FieldPin>,
}

/// A field and its current value.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FieldPin {
    /// Its path in a service, or in a config to which the service refers in `baseRefs`.
    pub path: String,
    /// Its value before the upgrade.
    pub value: Value,
}

/// Compares the children in a cluster with those that this build would plan. `before` is the cluster as it is, and `after`
/// the same cluster after the upgrade ([`Scene::upgraded`]). Also returns the services that cannot be planned.
pub fn plan(before: &Scene, after: &Scene) -> (Upgrade, Vec<PlanFailure>) {
    let (differences, failed) = diff::diff(before, after, true);
    let all = differences.len();
    let changed =
        differences.into_iter().filter(|difference| !difference.is_empty() || difference.problem.is_some());
    let mut services: Vec<ServiceChange> = changed
        .map(|difference| {
            let pins = pins(&difference);
            ServiceChange { difference, pins }
        })
        .collect();
    let unchanged = all - services.len();
    services.sort_by_key(|change| !change.difference.rolls.is_empty());
    (Upgrade { services, unchanged }, failed)
}

/// Returns the fields that presets change, because a higher layer can set them. They include fields that a preset no longer
/// sets.
fn pins(difference: &Difference) -> Vec<FieldPin> {
    let of_presets = difference
        .effective
        .iter()
        .filter(|change| change.set_by.as_ref().is_none_or(|setter| setter.kind == SetterKind::Preset));
    of_presets
        .filter_map(|change| Some(FieldPin { path: change.path.clone(), value: change.before.clone()? }))
        .collect()
}

// === impl Upgrade ===

impl Upgrade {
    /// Whether no service would change.
    pub fn is_empty(&self) -> bool {
        self.services.iter().all(|change| change.difference.is_empty())
    }

    /// Whether the objects of a service are partly unknown, because they cannot be planned.
    pub fn is_incomplete(&self) -> bool {
        self.services.iter().any(|change| change.difference.problem.is_some())
    }

    /// Formats the changes for users, with colours for terminals. Callers that print elsewhere remove the colours.
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        for change in &self.services {
            // Writing to a String cannot fail.
            text.push_str(&diff::to_text([&change.difference]));
            if !change.pins.is_empty() {
                text.push_str(
                    "  to keep the current values, set these fields in the service or in a config of its \
                     baseRefs:\n",
                );
                for pin in &change.pins {
                    let _ = writeln!(text, "    {} = {}", pin.path, short(&pin.value));
                }
            }
        }
        let rolling = self.services.iter().filter(|change| !change.difference.rolls.is_empty()).count();
        let changed = self.services.iter().filter(|change| !change.difference.is_empty()).count();
        let all = self.services.len() + self.unchanged;
        let _ = writeln!(
            text,
            "{} of {} would change, pods of {rolling} would roll",
            changed.bold(),
            counted(all, "service"),
        );
        if rolling > 1 {
            text.push_str(
                "They roll at the same time: the controller does not wait for one service before it \
                 updates the next.\nTo choose the order, keep the current values of some services, and \
                 remove them one service after the other.\n",
            );
        }
        text
    }
}
