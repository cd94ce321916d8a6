//! The address at which an API server calls a webhook.

use serde_json::Value;

use crate::Cause;

/// Appends the errors of a webhook's `clientConfig` at the path `at`.
pub fn check_client_config(config: &Value, at: &str, causes: &mut Vec<Cause>) {
    match (config.get("url"), config.get("service")) {
        (Some(url), None) => url_of(url, &format!("{at}.url"), causes),
        (None, Some(service)) => {
            for key in ["name", "namespace"] {
                if text(&service[key]).is_empty() {
                    let what = format!("service {key} is required");
                    causes.push(Cause::required(format!("{at}.service.{key}"), what));
                }
            }
        }
        _ => causes.push(Cause::required(at, "exactly one of url or service is required")),
    }
}

fn url_of(value: &Value, at: &str, causes: &mut Vec<Cause>) {
    const FORM: &str = "; desired format: https://host[/path]";
    let Ok(url) = url::Url::parse(text(value)) else {
        causes.push(Cause::required(at, format!("url must be a valid URL{FORM}")));
        return;
    };
    let mut wrong = |shown: &str, detail: &str| {
        causes.push(Cause::invalid(at, &Value::from(shown), format!("{detail}{FORM}")));
    };
    if url.scheme() != "https" {
        wrong(url.scheme(), "'https' is the only allowed URL scheme");
    }
    if url.host_str().is_none_or(str::is_empty) {
        wrong("", "host must be specified");
    }
    if !url.username().is_empty() {
        wrong(url.username(), "user information is not permitted in the URL");
    }
    if let Some(fragment) = url.fragment() {
        wrong(fragment, "fragments are not permitted in the URL");
    }
    if let Some(query) = url.query() {
        wrong(query, "query parameters are not permitted in the URL");
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
