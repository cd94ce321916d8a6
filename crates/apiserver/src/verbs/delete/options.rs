//! Reading of `DeleteOptions`.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::super::{Call, incoming};
use crate::{
    admit,
    deletion::{FOREGROUND, ORPHAN},
    request::{decode, query},
    status::{ApiError, Cause, StatusDetails},
};

/// `DeleteOptions`, from the body or the query.
#[derive(Debug, Clone, PartialEq, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Options {
    #[serde(skip_serializing_if = "Option::is_none")]
    grace_period_seconds: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    propagation_policy: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    orphan_dependents: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    preconditions: Option<Preconditions>,
    #[serde(skip_serializing)]
    dry_run: Vec<String>,
}

/// What the object must be to be deleted.
#[derive(Debug, Clone, PartialEq, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
struct Preconditions {
    #[serde(skip_serializing_if = "Option::is_none")]
    uid: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    resource_version: Option<String>,
}

// === impl Options ===

impl Options {
    /// Options for a deletion by the server itself, in the background.
    pub(crate) fn background() -> Self {
        Self { propagation_policy: Some("Background".to_owned()), ..Self::default() }
    }

    /// Reads `DeleteOptions`, to which a request may add a directive for a dry run.
    pub(crate) fn of<'a>(given: &Value, directives: impl Iterator<Item = &'a str>) -> Result<Self, ApiError> {
        let mut options: Self = match given {
            Value::Null => Self::default(),
            given => {
                Self::deserialize(given).map_err(|error| ApiError::unexpected_error(error.to_string()))?
            }
        };
        options.dry_run.extend(directives.map(str::to_owned));
        options.dry_run.dedup();
        query::check_dry_run(&options.dry_run, "DeleteOptions")?;
        Ok(options)
    }

    /// Restricts the deletion to the object with this uid.
    pub(crate) fn only(mut self, uid: &str) -> Self {
        self.preconditions.get_or_insert_default().uid = Some(uid.to_owned());
        self
    }

    /// Restricts the deletion to this revision of the object, unless the options name one.
    pub(crate) fn at(mut self, revision: u64) -> Self {
        let preconditions = self.preconditions.get_or_insert_default();
        preconditions.resource_version.get_or_insert_with(|| revision.to_string());
        self
    }

    /// Restricts the deletion to this revision, which follows the one that the options name.
    pub(crate) fn moved_to(mut self, revision: u64) -> Self {
        self.preconditions.get_or_insert_default().resource_version = Some(revision.to_string());
        self
    }

    /// The grace period, in seconds.
    pub(super) fn grace_period_seconds(&self) -> Option<i64> {
        self.grace_period_seconds
    }

    /// The UID that the object must have.
    pub(super) fn uid(&self) -> Option<&str> {
        self.preconditions.as_ref()?.uid.as_deref()
    }

    /// The resourceVersion that the object must have.
    pub(crate) fn resource_version(&self) -> Option<&str> {
        self.preconditions.as_ref()?.resource_version.as_deref()
    }

    pub(crate) fn is_dry_run(&self) -> bool {
        !self.dry_run.is_empty()
    }

    /// Returns whether dependents are orphaned, and whether they are deleted first.
    pub(super) fn propagation(&self, finalizers: &[String]) -> (bool, bool) {
        if let Some(orphan) = self.orphan_dependents {
            return (orphan, false);
        }
        match self.propagation_policy.as_deref() {
            Some("Orphan") => (true, false),
            Some("Foreground") => (false, true),
            Some(_) => (false, false),
            None => (finalizers.iter().any(|f| f == ORPHAN), finalizers.iter().any(|f| f == FOREGROUND)),
        }
    }
}

/// Reads the options of a request.
pub(super) fn read(call: &Call<'_>) -> Result<Options, ApiError> {
    let query = &call.request.query;
    let body = if call.request.body.is_empty() {
        let mut given = json!({});
        if let Some(grace) = query.number("gracePeriodSeconds")? {
            given["gracePeriodSeconds"] = Value::from(grace);
        }
        if let Some(policy) = query.get("propagationPolicy").filter(|p| !p.is_empty()) {
            given["propagationPolicy"] = Value::from(policy);
        }
        if query.get("orphanDependents").is_some() {
            given["orphanDependents"] = Value::from(query.flag("orphanDependents"));
        }
        for key in ["uid", "resourceVersion"] {
            if let Some(text) = query.get(key).filter(|text| !text.is_empty()) {
                given["preconditions"][key] = Value::from(text);
            }
        }
        given
    } else {
        body_options(call)?
    };
    let options = Options::of(&body, query.all("dryRun"))?;
    if let Some(policy) = &options.propagation_policy {
        let (name, shown) = ("propagationPolicy", Value::from(policy.as_str()));
        let cause = if options.orphan_dependents.is_some() {
            Cause::invalid(name, &shown, "orphanDependents and deletionPropagation cannot be both set")
        } else if matches!(policy.as_str(), "Foreground" | "Background" | "Orphan") {
            return Ok(options);
        } else {
            Cause::unsupported(name, &shown, &["Foreground", "Background", "Orphan", "nil"])
        };
        let about = StatusDetails { group: "meta.k8s.io", kind: "DeleteOptions", name: "" };
        return Err(ApiError::invalid(about, &[cause]));
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
    let mut shown = json!(options);
    shown["kind"] = Value::from("DeleteOptions");
    shown["apiVersion"] = Value::from("meta.k8s.io/v1");
    admit::options(shown, &call.request.query, options.is_dry_run())
}
