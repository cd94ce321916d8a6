//! Triggers that KEDA accepts in a ScaledObject, and then cannot evaluate.

use longboat_api::v1alpha2::KedaTrigger;
use longboat_quantity::{Quantity, cron};

use crate::time_zone;

/// The types of triggers that KEDA 2 has.
pub fn trigger_types() -> impl Iterator<Item = &'static str> {
    include_str!("trigger_types.txt").lines()
}

/// Something in a trigger that does not work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TriggerMistake {
    /// The path of the field below the trigger.
    pub field: &'static str,
    /// What is wrong, and what is expected.
    pub message: String,
}

/// Returns why KEDA cannot evaluate a trigger. The settings of types that are rare beside model servers are not checked.
pub fn trigger_mistakes(trigger: &KedaTrigger) -> Vec<TriggerMistake> {
    let mut mistakes = Mistakes { trigger, all: Vec::new() };
    match trigger.type_.as_str() {
        "prometheus" => mistakes.of_prometheus(),
        "cron" => mistakes.of_cron(),
        "cpu" | "memory" => mistakes.of_resource(),
        known if trigger_types().any(|name| name == known) => {}
        unknown => mistakes.add("type", format!("is {unknown:?}, which is no type of KEDA's triggers")),
    }
    mistakes.all
}

struct Mistakes<'a> {
    trigger: &'a KedaTrigger,
    all: Vec<TriggerMistake>,
}

// === impl Mistakes ===

impl<'a> Mistakes<'a> {
    fn add(&mut self, field: &'static str, message: String) {
        self.all.push(TriggerMistake { field, message });
    }

    /// A setting of the trigger. KEDA takes an empty one for one that is absent.
    fn setting(&self, key: &str) -> Option<&'a str> {
        let text = self.trigger.metadata.as_ref()?.get(key)?.trim();
        (!text.is_empty()).then_some(text)
    }

    /// Returns a setting that the trigger needs, or adds that it is missing.
    fn needed(&mut self, field: &'static str, expected: &str) -> Option<&'a str> {
        let found = self.setting(field.trim_start_matches("metadata."));
        if found.is_none() {
            self.add(field, format!("is empty: expected {expected}"));
        }
        found
    }

    /// Returns a setting that the trigger needs, or adds that it is missing or invalid.
    fn valid(
        &mut self,
        field: &'static str,
        expected: &str,
        is_valid: impl FnOnce(&str) -> bool,
    ) -> Option<&'a str> {
        let text = self.needed(field, expected)?;
        if is_valid(text) {
            return Some(text);
        }
        self.add(field, format!("is {text:?}: expected {expected}"));
        None
    }

    fn of_prometheus(&mut self) {
        if let Some(query) = self.needed("metadata.query", "a PromQL query with one number as its result")
            && let Some(problem) = unbalanced(query)
        {
            self.add("metadata.query", format!("is no PromQL: {problem}"));
        }
        let expected = "the address of Prometheus, such as http://prometheus:9090";
        self.valid("metadata.serverAddress", expected, |address| {
            ["http://", "https://"].iter().any(|scheme| address.starts_with(scheme))
        });
        let is_number = |text: &str| text.parse::<f64>().is_ok_and(f64::is_finite);
        let expected = "a number, such as \"5\"";
        // KEDA counts in thousandths, and an autoscaler refuses zero.
        if let Some(text) = self.valid("metadata.threshold", expected, is_number)
            && text.parse().is_ok_and(|threshold: f64| threshold < 0.001)
        {
            self.add("metadata.threshold", format!("is {text:?}: expected at least 0.001"));
        }
        if let Some(text) = self.setting("activationThreshold").filter(|text| !is_number(text)) {
            self.add("metadata.activationThreshold", format!("is {text:?}: expected {expected}"));
        }
        self.metric_type(&["", "AverageValue", "Value"]);
    }

    fn of_cron(&mut self) {
        let expected = "a name of the time zone database, such as Europe/Berlin or UTC";
        self.valid("metadata.timezone", expected, time_zone::may_be_zone);
        let mut schedules = Vec::new();
        for field in ["metadata.start", "metadata.end"] {
            let Some(text) = self.needed(field, "a schedule, such as \"0 8 * * *\"") else { continue };
            match cron::check(text) {
                Err(problem) => self.add(field, format!("is {text:?}: {problem}")),
                Ok(()) => schedules.push(text),
            }
        }
        if let [start, end] = schedules.as_slice()
            && start == end
        {
            self.add("metadata.end", format!("is {end:?}, like start: expected another schedule"));
        }
        let expected = "a number of replicas, such as \"3\"";
        self.valid("metadata.desiredReplicas", expected, |text| text.parse::<u32>().is_ok());
        self.metric_type(&["", "AverageValue", "Value"]);
    }

    fn of_resource(&mut self) {
        // Releases before 2.18 read the type from the metadata, too.
        let of_metadata = self.setting("type");
        if of_metadata.is_none() {
            self.metric_type(&["AverageValue", "Utilization"]);
        }
        let is_amount = of_metadata.unwrap_or(&self.trigger.metric_type) == "AverageValue";
        let expected = if is_amount {
            "an amount, such as 500m or 2Gi"
        } else {
            "a percentage of the request without the sign, such as \"80\""
        };
        self.valid("metadata.value", expected, |text| {
            if is_amount {
                Quantity::parse(text).is_some_and(|amount| amount.milli() > 0)
            } else {
                text.parse::<i32>().is_ok_and(|percentage| percentage > 0)
            }
        });
    }

    fn metric_type(&mut self, known: &[&str]) {
        let metric_type = self.trigger.metric_type.as_str();
        if !known.contains(&metric_type) {
            let known: Vec<&str> = known.iter().copied().filter(|name| !name.is_empty()).collect();
            self.add("metricType", format!("is {metric_type:?}: expected {}", known.join(" or ")));
        }
    }
}

/// Returns which bracket or quote of a query has no partner. The rest of the language is left to Prometheus.
fn unbalanced(query: &str) -> Option<String> {
    let mut open = Vec::new();
    let mut characters = query.chars();
    while let Some(character) = characters.next() {
        match character {
            '"' | '\'' | '`' => {
                let mut is_closed = false;
                while let Some(inner) = characters.next() {
                    if inner == '\\' && character != '`' {
                        characters.next();
                    } else if inner == character {
                        is_closed = true;
                        break;
                    }
                }
                if !is_closed {
                    return Some(format!("the quote {character} is not closed"));
                }
            }
            '#' => {
                characters.by_ref().find(|next| *next == '\n');
            }
            '(' => open.push(')'),
            '[' => open.push(']'),
            '{' => open.push('}'),
            ')' | ']' | '}' if open.pop() != Some(character) => {
                return Some(format!("{character} closes nothing"));
            }
            _ => {}
        }
    }
    open.pop().map(|missing| format!("{missing} is missing at the end"))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn what_keda_cannot_evaluate_is_named_with_its_field() {
        let mistakes = |trigger: &Value| -> Vec<String> {
            let all = trigger_mistakes(&serde_json::from_value(trigger.clone()).unwrap());
            all.into_iter().map(|mistake| format!("{} {}", mistake.field, mistake.message)).collect()
        };
        let prometheus = |change: Value| {
            let mut metadata = json!({"serverAddress": "http://p", "query": "sum(rate(a{b=\"(\"}[2m])) # :)", "threshold": "5"});
            metadata.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
            json!({"type": "prometheus", "metadata": metadata})
        };
        for (trigger, expected) in [
            (json!({"type": "kafka"}), vec![]),
            (prometheus(json!({})), vec![]),
            (prometheus(json!({"threshold": "1e2", "activationThreshold": "0.5"})), vec![]),
            (
                json!({"type": "promethues"}),
                vec!["type is \"promethues\", which is no type of KEDA's triggers"],
            ),
            (
                prometheus(json!({"threshold": "five"})),
                vec!["metadata.threshold is \"five\": expected a number, such as \"5\""],
            ),
            (
                json!({"type": "prometheus", "metricType": "Utilization", "metadata": {"query": " "}}),
                vec![
                    "metadata.query is empty: expected a PromQL query with one number as its result",
                    "metadata.serverAddress is empty: expected the address of Prometheus, such as http://prometheus:9090",
                    "metadata.threshold is empty: expected a number, such as \"5\"",
                    "metricType is \"Utilization\": expected AverageValue or Value",
                ],
            ),
            (
                prometheus(json!({"threshold": "0", "serverAddress": "prometheus:9090"})),
                vec![
                    "metadata.serverAddress is \"prometheus:9090\": expected the address of Prometheus, such as http://prometheus:9090",
                    "metadata.threshold is \"0\": expected at least 0.001",
                ],
            ),
            (
                prometheus(json!({"query": "sum(a"})),
                vec!["metadata.query is no PromQL: ) is missing at the end"],
            ),
            (prometheus(json!({"query": "sum(a]"})), vec!["metadata.query is no PromQL: ] closes nothing"]),
            (
                prometheus(json!({"query": "a{b=\"}"})),
                vec!["metadata.query is no PromQL: the quote \" is not closed"],
            ),
        ] {
            assert_eq!(mistakes(&trigger), expected, "{trigger}");
        }
    }

    fn mistakes_of(type_: &str, metric_type: &str, metadata: &Value) -> Vec<String> {
        let trigger = json!({"type": type_, "metricType": metric_type, "metadata": metadata});
        let all = trigger_mistakes(&serde_json::from_value(trigger).unwrap());
        all.into_iter().map(|mistake| format!("{} {}", mistake.field, mistake.message)).collect()
    }

    #[test]
    fn a_cron_trigger_needs_a_zone_two_schedules_and_replicas() {
        let of = |change: Value| {
            let mut metadata = json!({"timezone": "Europe/Berlin", "start": "0 8 * * 1-5", "end": "*/30 20,21 ? jan-MAR/2 SUN", "desiredReplicas": "3"});
            metadata.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
            mistakes_of("cron", "", &metadata)
        };
        assert_eq!(of(json!({})), [""; 0]);
        assert_eq!(of(json!({"timezone": "UTC"})), [""; 0]);
        let zone = "expected a name of the time zone database, such as Europe/Berlin or UTC";
        for wrong in ["Europ/Berlin", "+02:00", "Europe/"] {
            assert_eq!(of(json!({"timezone": wrong})), [format!("metadata.timezone is {wrong:?}: {zone}")]);
        }
        for (start, problem) in [
            ("@daily", "expected exactly 5 fields, found 1: [@daily]"),
            ("0 25 * * *", "end of range (25) above maximum (23): 25"),
            ("0 8 * * 5-1", "beginning of range (5) beyond end of range (1): 5-1"),
        ] {
            assert_eq!(of(json!({"start": start})), [format!("metadata.start is {start:?}: {problem}")]);
        }
        assert_eq!(
            of(json!({"start": "0 8 * * *", "end": "0 8 * * *", "desiredReplicas": "-1"})),
            [
                "metadata.end is \"0 8 * * *\", like start: expected another schedule",
                "metadata.desiredReplicas is \"-1\": expected a number of replicas, such as \"3\"",
            ]
        );
        assert_eq!(mistakes_of("cron", "Utilization", &json!({})).len(), 5);
    }

    #[test]
    fn a_trigger_of_a_resource_needs_how_to_compare_and_a_value_of_that_kind() {
        let percentage = "expected a percentage of the request without the sign, such as \"80\"";
        for (type_, metric_type, metadata, expected) in [
            ("cpu", "Utilization", json!({"value": "80"}), vec![]),
            ("memory", "AverageValue", json!({"value": "2Gi"}), vec![]),
            ("cpu", "", json!({"type": "Utilization", "value": "80"}), vec![]),
            (
                "cpu",
                "",
                json!({"value": "80"}),
                vec!["metricType is \"\": expected AverageValue or Utilization".to_owned()],
            ),
            (
                "cpu",
                "Utilization",
                json!({"value": "80%"}),
                vec![format!("metadata.value is \"80%\": {percentage}")],
            ),
            ("cpu", "Utilization", json!({}), vec![format!("metadata.value is empty: {percentage}")]),
            (
                "memory",
                "AverageValue",
                json!({"value": "2 GB"}),
                vec!["metadata.value is \"2 GB\": expected an amount, such as 500m or 2Gi".to_owned()],
            ),
        ] {
            assert_eq!(mistakes_of(type_, metric_type, &metadata), expected);
        }
    }
}
