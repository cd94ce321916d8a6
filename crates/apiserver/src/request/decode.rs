//! Decoding of JSON and YAML bodies, with the paths of duplicate fields.

use serde_json::Value;

use crate::{depth, schema::duplicate_fields, strategy::fields::json_error};

/// A decoded document.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Document {
    pub(crate) value: Value,
    /// Paths that occur more than once (`spec.replicas`). The last value counts.
    pub(crate) duplicates: Vec<String>,
}

/// Decodes JSON. Errors have the wording of Go's decoder.
pub(crate) fn json(bytes: &[u8]) -> Result<Document, String> {
    depth::check_text(bytes).map_err(|error| error.to_string())?;
    let value = serde_json::from_slice(bytes).map_err(|error| json_error(bytes, &error))?;
    Ok(Document { value, duplicates: duplicate_fields(bytes) })
}

/// Decodes the first document of a YAML text.
pub(crate) fn yaml(bytes: &[u8]) -> Result<Document, String> {
    let text = std::str::from_utf8(bytes).map_err(|_| "yaml: invalid UTF-8".to_owned())?;
    if text.trim().is_empty() {
        return Ok(Document { value: Value::Null, duplicates: Vec::new() });
    }
    // Most clients send JSON. JSON is valid YAML, but its parser is many times faster. If it fails, the YAML parser below
    // reports the error.
    if text.trim_start().starts_with('{') {
        depth::check_text(bytes).map_err(|error| error.to_string())?;
        if let Ok(value) = serde_json::from_str(text)
            && duplicate_fields(bytes).is_empty()
        {
            return Ok(Document { value, duplicates: Vec::new() });
        }
    }
    let mut options = serde_saphyr::Options::default();
    if let Some(budget) = &mut options.budget {
        // A little more than the limit, so that the check of the value reports the error, with the path.
        budget.max_depth = depth::MAX_DEPTH + 10;
    }
    let strict: Result<Value, _> = serde_saphyr::from_str_with_options(text, options.clone());
    if let Ok(value) = strict {
        depth::check(&value).map_err(|error| error.to_string())?;
        return Ok(Document { value, duplicates: Vec::new() });
    }
    options.duplicate_keys = serde_saphyr::DuplicateKeyPolicy::LastWins;
    match serde_saphyr::from_str_with_options::<Value>(text, options) {
        Ok(value) => {
            depth::check(&value).map_err(|error| error.to_string())?;
            let duplicates = strict.err().map(|error| duplicate_key(&error.to_string()));
            Ok(Document { value, duplicates: duplicates.into_iter().collect() })
        }
        Err(error) => Err(yaml_text(&error.to_string())),
    }
}

/// Rewrites `error: line 2 column 6: …` (and the source excerpt after it) as `yaml: line 2: …`.
fn yaml_text(error: &str) -> String {
    // The parser's message names its internal limits.
    if error.contains("budget breached") || error.contains("alias replay limit") {
        return "yaml: the document is too large: it has too many nodes, those that aliases add included"
            .to_owned();
    }
    let first = error.lines().next().unwrap_or_default();
    let first = first.strip_prefix("error: ").unwrap_or(first);
    let placed = first.split_once(": ").and_then(|(place, why)| {
        let line = place.strip_prefix("line ")?.split(' ').next()?;
        Some(format!("yaml: line {line}: {why}"))
    });
    placed.unwrap_or_else(|| format!("yaml: {first}"))
}

/// Rewrites the error for a duplicate key in the words of Go's YAML decoder.
fn duplicate_key(error: &str) -> String {
    let after = |mark: &str| {
        let rest = error.split_once(mark).map_or("", |(_, rest)| rest);
        rest.split([' ', ',', '\n']).next().unwrap_or_default()
    };
    format!(
        "yaml: unmarshal errors:\n  line {}: key {:?} already set in map",
        after("line "),
        after("duplicate mapping key: ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn duplicate_fields_are_named_and_the_last_one_counts() {
        let document = json(br#"{"a":{"b":1,"b":2},"c":[{"d":1,"d":2}]}"#).unwrap();
        assert_eq!(document.duplicates, ["a.b", "c[0].d"]);
        assert_eq!(document.value["a"]["b"], 2);
    }

    #[test]
    fn broken_json_is_described_as_go_does() {
        assert_eq!(
            json(b"{bad").unwrap_err(),
            "invalid character 'b' looking for beginning of object key string"
        );
        assert_eq!(json(b"{\"a\":").unwrap_err(), "unexpected end of JSON input");
        assert_eq!(json(b"{} t").unwrap_err(), "invalid character 't' after top-level value");
        assert_eq!(json(b"not json").unwrap_err(), "invalid character 'o' in literal null (expecting 'u')");
    }

    #[test]
    fn yaml_that_aliases_make_too_large_is_refused_in_words() {
        let levels = ["a: &a [1,1,1,1,1,1,1,1]", "b: &b [*a,*a,*a,*a,*a,*a,*a,*a]"].map(str::to_owned);
        let further = "bcdefgh".chars().zip("cdefghi".chars());
        let further = further
            .map(|(below, level)| format!("{level}: &{level} [{}]", vec![format!("*{below}"); 8].join(",")));
        let text = levels.into_iter().chain(further).collect::<Vec<_>>().join("\n");
        assert_eq!(
            yaml(text.as_bytes()).unwrap_err(),
            "yaml: the document is too large: it has too many nodes, those that aliases add included"
        );
    }
}
