//! Reading of `DeleteOptions`.

use serde_json::{Value, json};

use super::super::{Call, incoming};
use crate::{
    admit,
    deletion::{FOREGROUND, ORPHAN},
    request::{decode, query},
    status::{ApiError, Cause, StatusDetails},
};

/// `DeleteOptions`, from the body or the query.
#[derive(Debug, Clone, Default)]
pub(crate) struct Options {
    pub(crate) grace: Option<i64>,
    pub(super) policy: Option<String>,
    pub(super) orphan: Option<bool>,
    pub(super) uid: Option<String>,
    pub(super) revision: Option<String>,
    pub(super) dry_run: bool,
}

// === impl Options ===

impl Options {
    /// Options for a deletion by the server itself, in the background.
    pub(crate) fn background() -> Self {
        Self { policy: Some("Background".to_owned()), ..Self::default() }
    }

    /// Reads the options of an eviction.
    pub(crate) fn of_eviction(given: &Value, dry_run: bool) -> Result<Self, ApiError> {
        let directives: Vec<&str> =
            given["dryRun"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let text = |value: &Value| value.as_str().map(str::to_owned);
        Ok(Self {
            grace: given["gracePeriodSeconds"].as_i64(),
            policy: text(&given["propagationPolicy"]),
            orphan: given["orphanDependents"].as_bool(),
            uid: text(&given["preconditions"]["uid"]),
            revision: text(&given["preconditions"]["resourceVersion"]),
            dry_run: query::check_dry_run(&directives, "DeleteOptions")? || dry_run,
        })
    }

    /// Restricts the deletion to the object with this uid.
    pub(crate) fn only(mut self, uid: &str) -> Self {
        self.uid = Some(uid.to_owned());
        self
    }

    /// Returns whether dependents are orphaned, and whether they are deleted first.
    pub(super) fn propagation(&self, finalizers: &[String]) -> (bool, bool) {
        if let Some(orphan) = self.orphan {
            return (orphan, false);
        }
        match self.policy.as_deref() {
            Some("Orphan") => (true, false),
            Some("Foreground") => (false, true),
            Some(_) => (false, false),
            None => (finalizers.iter().any(|f| f == ORPHAN), finalizers.iter().any(|f| f == FOREGROUND)),
        }
    }
}

/// Reads the options of a request.
pub(super) fn read(call: &Call<'_>) -> Result<Options, ApiError> {
    let about = StatusDetails { group: "meta.k8s.io", kind: "DeleteOptions", name: "" };
    let request = call.request;
    let body = if request.body.is_empty() {
        let mut given = json!({});
        if let Some(grace) = request.query.number("gracePeriodSeconds")? {
            given["gracePeriodSeconds"] = Value::from(grace);
        }
        if let Some(policy) = request.query.get("propagationPolicy").filter(|p| !p.is_empty()) {
            given["propagationPolicy"] = Value::from(policy);
        }
        if request.query.get("orphanDependents").is_some() {
            given["orphanDependents"] = Value::from(request.query.flag("orphanDependents"));
        }
        for key in ["uid", "resourceVersion"] {
            if let Some(text) = request.query.get(key).filter(|text| !text.is_empty()) {
                given["preconditions"][key] = Value::from(text);
            }
        }
        let dry: Vec<&str> = request.query.all("dryRun").collect();
        given["dryRun"] = Value::from(dry);
        given
    } else {
        body_options(call)?
    };
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let mut dry: Vec<&str> =
        body["dryRun"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    dry.extend(request.query.all("dryRun"));
    dry.dedup();
    let options = Options {
        grace: body["gracePeriodSeconds"].as_i64(),
        policy: text(&body["propagationPolicy"]),
        orphan: body["orphanDependents"].as_bool(),
        uid: text(&body["preconditions"]["uid"]),
        revision: text(&body["preconditions"]["resourceVersion"]),
        dry_run: query::check_dry_run(&dry, "DeleteOptions")?,
    };
    if let Some(policy) = &options.policy {
        let shown = Value::from(policy.as_str());
        let cause = if options.orphan.is_some() {
            Some(Cause::invalid(
                "propagationPolicy",
                &shown,
                "orphanDependents and deletionPropagation cannot be both set",
            ))
        } else if !matches!(policy.as_str(), "Foreground" | "Background" | "Orphan") {
            Some(Cause::unsupported(
                "propagationPolicy",
                &shown,
                &["Foreground", "Background", "Orphan", "nil"],
            ))
        } else {
            None
        };
        if let Some(cause) = cause {
            return Err(ApiError::invalid(about, &[cause]));
        }
    }
    Ok(options)
}

fn body_options(call: &Call<'_>) -> Result<Value, ApiError> {
    let request = call.request;
    let document = match request.content_type().as_str() {
        "" | "application/json" => decode::json(&request.body).map_err(|why| {
            ApiError::unexpected_error(format!("couldn't get version/kind; json parse error: {why}"))
        })?,
        "application/yaml" => decode::yaml(&request.body).map_err(ApiError::unexpected_error)?,
        "application/vnd.kubernetes.protobuf" => {
            let value = crate::protobuf::decode(&request.body, "v1", "DeleteOptions")
                .map_err(|error| ApiError::unexpected_error(error.why))?;
            decode::Document { value, duplicates: Vec::new() }
        }
        _ => {
            return Err(ApiError::unsupported_media_type(
                "application/json, application/yaml, application/vnd.kubernetes.protobuf",
            ));
        }
    };
    let value = document.value;
    if let Some(wrong) = incoming::not_an_object(&value) {
        return Err(ApiError::unexpected_error(format!(
            "couldn't get version/kind; json parse error: {wrong}"
        )));
    }
    let kind = value["kind"].as_str().unwrap_or_default();
    let version = value["apiVersion"].as_str().filter(|version| !version.is_empty());
    if kind == "Status" && version == Some("v1") {
        return Err(ApiError::unexpected_error(
            "converting (v1.Status) to (v1.DeleteOptions): unknown conversion",
        ));
    }
    if !kind.is_empty() && kind != "DeleteOptions" {
        return Err(ApiError::unexpected_error(format!(
            "no kind \"{kind}\" is registered for version \"{}\" in scheme \"pkg/runtime/scheme.go:110\"",
            version.unwrap_or("meta.k8s.io/v1")
        )));
    }
    if let Some(why) = mistyped(&value) {
        return Err(ApiError::unexpected_error(why));
    }
    Ok(value)
}

/// Returns why options cannot be decoded, in the words of Go's decoder.
fn mistyped(options: &Value) -> Option<String> {
    let wrong = |key: &str, value: &Value, expected: &str| {
        Some(format!(
            "json: cannot unmarshal {} into Go struct field DeleteOptions.{key} of type {expected}",
            longboat_schema::go_type(value)
        ))
    };
    for (key, expected) in [
        ("gracePeriodSeconds", "int64"),
        ("preconditions", "v1.Preconditions"),
        ("orphanDependents", "bool"),
        ("propagationPolicy", "v1.DeletionPropagation"),
        ("dryRun", "[]string"),
    ] {
        let value = &options[key];
        let fits = match expected {
            "int64" => value.is_i64(),
            "v1.Preconditions" => value.is_object(),
            "bool" => value.is_boolean(),
            "[]string" => value.is_array(),
            _ => value.is_string(),
        };
        if !value.is_null() && !fits {
            return wrong(key, value, expected);
        }
    }
    None
}

/// Returns the options in the form that admission reviews show.
pub(super) fn for_review(call: &Call<'_>, options: &Options) -> Value {
    let mut shown = json!({"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1"});
    if let Some(grace) = options.grace {
        shown["gracePeriodSeconds"] = Value::from(grace);
    }
    if let Some(policy) = &options.policy {
        shown["propagationPolicy"] = Value::from(policy.as_str());
    }
    if let Some(orphan) = options.orphan {
        shown["orphanDependents"] = Value::from(orphan);
    }
    if options.uid.is_some() || options.revision.is_some() {
        let mut preconditions = json!({});
        if let Some(uid) = &options.uid {
            preconditions["uid"] = Value::from(uid.as_str());
        }
        if let Some(revision) = &options.revision {
            preconditions["resourceVersion"] = Value::from(revision.as_str());
        }
        shown["preconditions"] = preconditions;
    }
    admit::options(shown, &call.request.query, options.dry_run)
}
