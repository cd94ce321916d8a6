//! Names that plugin types had in earlier releases of the reference, which neither it nor this picker reads any more.

/// The former name, and the present one.
const FORMER: [(&str, &str); 10] = [
    ("kv-cache", "kv-cache-utilization-scorer"),
    ("kv-cache-scorer", "kv-cache-utilization-scorer"),
    ("lora-affinity", "lora-affinity-scorer"),
    ("max-score", "max-score-picker"),
    ("model-server-protocol-metrics", "core-metrics-extractor"),
    ("prefix-cache", "prefix-cache-scorer"),
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
