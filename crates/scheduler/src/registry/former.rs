//! Names that plugin types had in earlier releases of the reference, which neither it nor this picker reads any more.

use longboat_api::picker_plugins;

/// The former name, and the present one.
const FORMER: [(&str, &str); 10] = [
    ("kv-cache", "kv-cache-utilization-scorer"),
    ("kv-cache-scorer", "kv-cache-utilization-scorer"),
    ("lora-affinity", picker_plugins::LORA_SCORER),
    ("max-score", "max-score-picker"),
    (picker_plugins::OLD_METRICS_EXTRACTOR, picker_plugins::METRICS_EXTRACTOR),
    ("prefix-cache", picker_plugins::PREFIX_SCORER),
    ("queue", "queue-scorer"),
    ("random", "random-picker"),
    ("single-profile", "single-profile-handler"),
    ("weighted-random", "weighted-random-picker"),
];

/// Returns the present name of a type. Returns `None` if the name is no former one.
pub(super) fn present_name(plugin_type: &str) -> Option<&'static str> {
    FORMER.iter().find(|(former, _)| *former == plugin_type).map(|(_, present)| *present)
}

#[cfg(test)]
mod tests {
    use super::FORMER;
    use crate::known_types;

    #[test]
    fn former_names_are_unknown_and_present_names_are_known() {
        let known = known_types();
        for (former, present) in FORMER {
            assert!(!known.contains(&former) && known.contains(&present), "{former}");
        }
    }
}
