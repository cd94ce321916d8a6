//! The address at which an API server calls a webhook.

use crate::Field;

/// Reports the errors of a webhook's `clientConfig`.
pub fn check_client_config(config: &Field<'_>) {
    match (config.get("url"), config.get("service")) {
        (Some(_), None) => check_url(&config.at("url")),
        (None, Some(_)) => {
            for key in ["name", "namespace"] {
                config.at("service").at(key).not_empty(&format!("service {key} is required"));
            }
        }
        _ => config.required("exactly one of url or service is required"),
    }
}

fn check_url(field: &Field<'_>) {
    const FORM: &str = "; desired format: https://host[/path]";
    let Ok(url) = url::Url::parse(field.as_text()) else {
        field.required(format!("url must be a valid URL{FORM}"));
        return;
    };
    let wrong = |shown: &str, detail: &str| {
        field.with(&shown.into()).invalid(format!("{detail}{FORM}"));
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
