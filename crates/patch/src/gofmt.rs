//! Formats decoded JSON as Go does, because error texts of Kubernetes contain such output.

pub use longboat_schema::go_type;
use longboat_types::float;
pub use longboat_types::quote::quote;
use serde_json::{Number, Value};

/// Formats a value like `%v`.
pub fn plain(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::Bool(flag) => flag.to_string(),
        Value::Number(number) => number_text(number),
        Value::String(text) => text.clone(),
        Value::Array(values) => plain_list(values),
        Value::Object(map) => plain_map(map),
    }
}

/// Formats a list of values like `%v`.
pub(crate) fn plain_list(values: &[Value]) -> String {
    let words: Vec<String> = values.iter().map(plain).collect();
    format!("[{}]", words.join(" "))
}

/// Formats an object like `%v`, with sorted keys.
pub(crate) fn plain_map(map: &serde_json::Map<String, Value>) -> String {
    let mut keys: Vec<&String> = map.keys().collect();
    keys.sort();
    let words: Vec<String> = keys.into_iter().map(|key| format!("{key}:{}", plain(&map[key]))).collect();
    format!("map[{}]", words.join(" "))
}

/// Formats a value like `%#v`.
pub fn syntax(value: &Value) -> String {
    match value {
        Value::Null => "interface {}(nil)".to_owned(),
        Value::Bool(flag) => flag.to_string(),
        Value::Number(number) => number_text(number),
        Value::String(text) => quote(text),
        Value::Array(values) => {
            let words: Vec<String> = values.iter().map(syntax).collect();
            format!("[]interface {{}}{{{}}}", words.join(", "))
        }
        Value::Object(map) => {
            let mut keys: Vec<&String> = map.keys().collect();
            keys.sort();
            let words: Vec<String> =
                keys.into_iter().map(|key| format!("{}:{}", quote(key), syntax(&map[key]))).collect();
            format!("map[string]interface {{}}{{{}}}", words.join(", "))
        }
    }
}

/// The name of the Go type into which a value is decoded.
pub fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

fn number_text(number: &Number) -> String {
    number.as_f64().filter(|_| number.is_f64()).map_or_else(|| number.to_string(), float::shortest)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_print_as_go_prints_them() {
        for (value, expected) in [
            (json!({"b": [1, null, "x"], "a": {"c": true}}), "map[a:map[c:true] b:[1 <nil> x]]"),
            (json!(1.5), "1.5"),
            (json!(1e21), "1e+21"),
            (json!(0.00001), "1e-05"),
            (json!(2.0), "2"),
        ] {
            assert_eq!(plain(&value), expected);
        }
        assert_eq!(syntax(&json!({"a": ["x", 1]})), r#"map[string]interface {}{"a":[]interface {}{"x", 1}}"#);
    }
}
