//! Label selectors, as JSON.

use serde_json::Value;

/// Whether a label selector object selects these labels. A missing selector selects nothing.
pub fn selects(selector: &Value, labels: &Value) -> bool {
    if !selector.is_object() {
        return false;
    }
    let label = |key: &str| labels.get(key).and_then(Value::as_str);
    let exact = selector["matchLabels"]
        .as_object()
        .into_iter()
        .flatten()
        .all(|(key, value)| label(key) == value.as_str());
    exact
        && selector["matchExpressions"].as_array().into_iter().flatten().all(|expression| {
            let found = label(expression["key"].as_str().unwrap_or_default());
            let listed =
                || expression["values"].as_array().into_iter().flatten().any(|v| v.as_str() == found);
            match expression["operator"].as_str().unwrap_or_default() {
                "In" => found.is_some() && listed(),
                "NotIn" => found.is_none() || !listed(),
                "Exists" => found.is_some(),
                "DoesNotExist" => found.is_none(),
                _ => false,
            }
        })
}

/// Formats a label selector object as text, as a Scale shows it: `a=b,c in (d,e)`.
pub fn selector_text(selector: &Value) -> String {
    let mut parts: Vec<String> = selector["matchLabels"]
        .as_object()
        .into_iter()
        .flatten()
        .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()))
        .collect();
    for expression in selector["matchExpressions"].as_array().into_iter().flatten() {
        let key = expression["key"].as_str().unwrap_or_default();
        let mut values: Vec<&str> =
            expression["values"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        values.sort_unstable();
        parts.push(match expression["operator"].as_str().unwrap_or_default() {
            "In" => format!("{key} in ({})", values.join(",")),
            "NotIn" => format!("{key} notin ({})", values.join(",")),
            "DoesNotExist" => format!("!{key}"),
            _ => key.to_owned(),
        });
    }
    parts.sort();
    parts.join(",")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::selects;

    #[test]
    fn selectors_match_labels() {
        let labels = json!({"a": "1", "b": "2"});
        let is_match = |selector: Value| selects(&selector, &labels);
        assert!(is_match(json!({})));
        assert!(is_match(json!({"matchLabels": {"a": "1"}})));
        assert!(!is_match(json!({"matchLabels": {"a": "2"}})));
        assert!(is_match(
            json!({"matchExpressions": [{"key": "a", "operator": "In", "values": ["1", "3"]}]})
        ));
        assert!(!is_match(json!({"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["1"]}]})));
        assert!(is_match(json!({"matchExpressions": [{"key": "c", "operator": "NotIn", "values": ["1"]}]})));
        assert!(!is_match(json!({"matchExpressions": [{"key": "b", "operator": "DoesNotExist"}]})));
    }
}
