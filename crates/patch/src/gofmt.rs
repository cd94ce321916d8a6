//! Formats decoded JSON as Go does, because error texts of Kubernetes contain such output.

pub use longboat_types::quote::quote;
use serde_json::{Number, Value};

/// Formats a value like `%v`.
pub fn plain(value: &Value) -> String {
    let mut out = String::new();
    write_plain(&mut out, value);
    out
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

fn write_plain(out: &mut String, value: &Value) {
    match value {
        Value::Null => out.push_str("<nil>"),
        Value::Bool(flag) => out.push_str(if *flag { "true" } else { "false" }),
        Value::Number(number) => out.push_str(&number_text(number)),
        Value::String(text) => out.push_str(text),
        Value::Array(values) => out.push_str(&plain_list(values)),
        Value::Object(map) => out.push_str(&plain_map(map)),
    }
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

/// The name of the JSON type of a value, as Go's decoder gives it in its errors.
pub fn json_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn number_text(number: &Number) -> String {
    let Some(float) = number.as_f64().filter(|_| number.is_f64()) else { return number.to_string() };
    let size = float.abs();
    if size != 0.0 && !(1e-4..1e21).contains(&size) {
        let text = format!("{float:e}");
        let Some((digits, exponent)) = text.split_once('e') else { return text };
        let (sign, exponent) = exponent.strip_prefix('-').map_or(('+', exponent), |rest| ('-', rest));
        return format!("{digits}e{sign}{exponent:0>2}");
    }
    format!("{float}")
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
