//! Pins preset names, so that a service keeps the presets of the release under which it was created.

use std::collections::BTreeMap;

use longboat_api::names::preset;

/// How the names of presets are formed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PresetNames {
    /// The prefix of all preset names, `kserve-` by default.
    pub prefix: String,
    /// Whether services pin the names of their first presets.
    pub versioned: bool,
}

impl Default for PresetNames {
    fn default() -> Self {
        Self { prefix: longboat_api::names::DEFAULT_PRESET_PREFIX.to_owned(), versioned: true }
    }
}

impl PresetNames {
    /// The full name of a preset.
    pub fn full(&self, suffix: &str) -> String {
        format!("{}{suffix}", self.prefix)
    }

    /// The status annotations with every missing pin added; existing ones stay as they are.
    pub fn pin(&self, annotations: Option<&BTreeMap<String, String>>) -> BTreeMap<String, String> {
        let mut pinned = annotations.cloned().unwrap_or_default();
        if self.versioned {
            for suffix in preset::WELL_KNOWN {
                let value = pinned.entry(key(suffix)).or_default();
                if value.is_empty() {
                    *value = self.full(suffix);
                }
            }
        }
        pinned
    }

    /// Returns the name of the preset for a service with these pins.
    pub(crate) fn resolve(&self, suffix: &str, pinned: &BTreeMap<String, String>) -> String {
        self.pin_of(suffix, pinned).map_or_else(|| self.full(suffix), ToOwned::to_owned)
    }

    /// The name of a preset that a service pins. Route presets and presets that are not shipped are never pinned.
    pub(crate) fn pin_of<'a>(&self, suffix: &str, pinned: &'a BTreeMap<String, String>) -> Option<&'a str> {
        let is_shipped = preset::shipped().any(|shipped| shipped == suffix);
        let pin = pinned.get(&key(suffix)).filter(|name| !name.is_empty());
        pin.filter(|_| self.versioned && suffix != preset::ROUTER_ROUTE && is_shipped).map(String::as_str)
    }
}

fn key(suffix: &str) -> String {
    format!("serving.kserve.io/{suffix}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pinned_name_outlives_a_change_of_prefix() {
        let old = PresetNames { prefix: "old-".to_owned(), versioned: true };
        let pins = old.pin(None);
        assert_eq!(pins.len(), preset::WELL_KNOWN.len());
        let new = PresetNames::default();
        let again = new.pin(Some(&pins));
        assert_eq!(again, pins);
        assert_eq!(new.resolve(preset::TEMPLATE, &again), "old-config-llm-template");
        assert_eq!(new.resolve(preset::ROUTER_ROUTE, &again), "kserve-config-llm-router-route");
        assert_eq!(
            new.resolve("config-llm-worker-pipeline-parallel", &again),
            "kserve-config-llm-worker-pipeline-parallel"
        );
    }

    #[test]
    fn unrelated_annotations_stay_and_empty_pins_are_filled() {
        let given = BTreeMap::from([
            ("serving.kserve.io/config-llm-template".to_owned(), String::new()),
            ("other".to_owned(), "x".to_owned()),
        ]);
        let pins = PresetNames::default().pin(Some(&given));
        assert_eq!(pins["serving.kserve.io/config-llm-template"], "kserve-config-llm-template");
        assert_eq!(pins["other"], "x");
        let unversioned = PresetNames { versioned: false, ..PresetNames::default() };
        assert_eq!(unversioned.pin(Some(&given)), given);
    }
}
