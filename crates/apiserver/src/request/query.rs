//! Query parameters.

use url::form_urlencoded;

use crate::status::{ApiError, Cause, StatusDetails};
use serde_json::Value;

/// Decoded parameters in their order. If several have the same name, the first counts.
#[derive(Debug, Clone, Default)]
pub(crate) struct Query(Vec<(String, String)>);

// === impl Query ===

impl Query {
    /// Reads the parameters. Like Go, drops those with a malformed escape or a semicolon.
    pub(crate) fn parse(text: &str) -> Self {
        let pairs = text.split('&').filter(|pair| !pair.contains(';') && has_whole_escapes(pair));
        Self(pairs.flat_map(|pair| form_urlencoded::parse(pair.as_bytes()).into_owned()).collect())
    }

    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(n, _)| n == name).map(|(_, v)| v.as_str())
    }

    pub(crate) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(n, _)| n == name).map(|(_, v)| v.as_str())
    }

    /// Reads a boolean parameter as Go does: it is true if it is present and neither `false` nor `0`.
    pub(crate) fn flag(&self, name: &str) -> bool {
        self.get(name).is_some_and(|v| v != "false" && v != "0")
    }

    /// Reads an integer parameter. Errors have the wording of kube-apiserver.
    pub(crate) fn number(&self, name: &str) -> Result<Option<i64>, ApiError> {
        match self.get(name) {
            None | Some("") => Ok(None),
            Some(text) => text.parse().map(Some).map_err(|_| {
                ApiError::bad_request(format!("strconv.ParseInt: parsing \"{text}\": invalid syntax"))
            }),
        }
    }

    /// Checks that `timeout` is a Go duration.
    pub(crate) fn check_timeout(&self) -> Result<(), ApiError> {
        let Some(text) = self.get("timeout").filter(|text| !text.is_empty()) else { return Ok(()) };
        match duration_problem(text) {
            None => Ok(()),
            Some(why) => Err(ApiError::bad_request(format!(
                "invalid timeout specified in the request URL - time: {why} {text:?}"
            ))),
        }
    }

    /// Validates `dryRun`.
    pub(crate) fn dry_run_problem(&self) -> Option<Cause> {
        dry_run_problem(&self.all("dryRun").collect::<Vec<_>>())
    }

    /// Reads `dryRun` of options of `kind`. Refuses any value but `All`.
    pub(crate) fn dry_run(&self, kind: &str) -> Result<bool, ApiError> {
        let given: Vec<&str> = self.all("dryRun").collect();
        check_dry_run(&given, kind)
    }
}

/// Whether two hexadecimal digits follow each `%`.
fn has_whole_escapes(text: &str) -> bool {
    text.split('%').skip(1).all(|rest| rest.len() >= 2 && rest.bytes().take(2).all(|b| b.is_ascii_hexdigit()))
}

/// Returns why Go's parser rejects a text as a duration.
fn duration_problem(text: &str) -> Option<&'static str> {
    const INVALID: &str = "invalid duration";
    let mut rest = text.strip_prefix(['-', '+']).unwrap_or(text);
    if rest == "0" {
        return None;
    }
    if rest.is_empty() {
        return Some(INVALID);
    }
    while !rest.is_empty() {
        let number = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let digits = &rest[..number];
        if !digits.bytes().any(|byte| byte.is_ascii_digit()) || digits.matches('.').count() > 1 {
            return Some(INVALID);
        }
        rest = &rest[number..];
        let unit = rest.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(rest.len());
        match &rest[..unit] {
            "" => return Some("missing unit in duration"),
            "ns" | "us" | "µs" | "μs" | "ms" | "s" | "m" | "h" => {}
            _ => return Some("unknown unit in duration"),
        }
        rest = &rest[unit..];
    }
    None
}

/// Whether the list of dry-run directives asks for a dry run.
pub(crate) fn check_dry_run(given: &[impl AsRef<str>], kind: &str) -> Result<bool, ApiError> {
    match dry_run_problem(given) {
        None => Ok(!given.is_empty()),
        Some(cause) => {
            Err(ApiError::invalid(StatusDetails { group: "meta.k8s.io", kind, name: "" }, &[cause]))
        }
    }
}

fn dry_run_problem(given: &[impl AsRef<str>]) -> Option<Cause> {
    let given: Vec<&str> = given.iter().map(AsRef::as_ref).collect();
    let known = given.iter().all(|directive| *directive == "All");
    (!known).then(|| Cause::unsupported("dryRun", &Value::from(given), &["All"]))
}

/// How the server treats unknown and duplicate fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FieldValidation {
    Ignore,
    Warn,
    Strict,
}

// === impl FieldValidation ===

impl FieldValidation {
    pub(crate) fn of(query: &Query, kind: &str) -> Result<Self, ApiError> {
        match query.get("fieldValidation") {
            None | Some("" | "Warn") => Ok(Self::Warn),
            Some("Ignore") => Ok(Self::Ignore),
            Some("Strict") => Ok(Self::Strict),
            Some(other) => Err(ApiError::invalid(
                StatusDetails { group: "meta.k8s.io", kind, name: "" },
                &[Cause::unsupported(
                    "fieldValidation",
                    &Value::from(other),
                    &["", "Ignore", "Strict", "Warn"],
                )],
            )),
        }
    }

    /// Adds the problems to the warnings, or returns them as an error.
    pub(crate) fn report(self, problems: Vec<String>, warnings: &mut Vec<String>) -> Result<(), String> {
        match self {
            Self::Strict if !problems.is_empty() => {
                return Err(format!("strict decoding error: {}", problems.join(", ")));
            }
            Self::Warn => warnings.extend(problems),
            Self::Strict | Self::Ignore => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::Query;

    #[test]
    fn malformed_parameters_are_dropped() {
        let query = Query::parse("a=%&b=%4&c=%zz&%x=1&d=1;e=2&f=%41+%e2%82%ac&g");
        for name in ["a", "b", "c", "d", "%x"] {
            assert_eq!(query.get(name), None, "{name}");
        }
        assert_eq!(query.get("f"), Some("A \u{20ac}"));
        assert_eq!(query.get("g"), Some(""));
    }
}
