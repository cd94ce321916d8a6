//! `ConversionReview` in, `ConversionReview` out (contract 01 §7).

use longboat_api::conversion::{self, Version};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::Malformed;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Review {
    api_version: Option<String>,
    kind: Option<String>,
    request: Option<Asked>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Asked {
    #[serde(default)]
    uid: String,
    #[serde(default, rename = "desiredAPIVersion")]
    desired_api_version: String,
    #[serde(default)]
    objects: Vec<Value>,
}

const REVIEW_GROUP: &str = "apiextensions.k8s.io";

/// Converts the objects of a review; the JSON of the reply, with the objects in their order. One that cannot be converted
/// fails the whole review, with a message that names it.
///
/// # Errors
///
/// [`Malformed`] for a body that is no `ConversionReview` of version `v1` or `v1beta1`: there is no review to reply with.
pub fn conversion_review(body: &[u8]) -> Result<Vec<u8>, Malformed> {
    let review: Review = serde_json::from_slice(body)
        .map_err(|error| Malformed(format!("the body is no ConversionReview: {error}")))?;
    let api_version = review.api_version.unwrap_or_default();
    let kind = review.kind.unwrap_or_default();
    let known = api_version
        .split_once('/')
        .is_some_and(|(group, version)| group == REVIEW_GROUP && matches!(version, "v1" | "v1beta1"));
    if kind != "ConversionReview" || !known {
        return Err(Malformed(format!(
            "expected a ConversionReview of {REVIEW_GROUP}/v1 or {REVIEW_GROUP}/v1beta1, got kind {kind:?} of \
             apiVersion {api_version:?}"
        )));
    }
    let Some(asked) = review.request else {
        return Err(Malformed("the ConversionReview has no request".to_owned()));
    };
    let response = match convert(asked.objects, &asked.desired_api_version) {
        Ok(objects) => {
            json!({"uid": asked.uid, "result": {"status": "Success"}, "convertedObjects": Value::Array(objects)})
        }
        Err(why) => json!({
            "uid": asked.uid, "result": {"status": "Failure", "reason": "BadRequest", "message": why},
            "convertedObjects": [],
        }),
    };
    let mut reply = Vec::with_capacity(body.len() + body.len() / 8);
    // What is made of strings and JSON can be written as JSON, and memory takes it.
    let _ = serde_json::to_writer(&mut reply, &Value::Object(with(api_version, kind, response)));
    Ok(reply)
}

fn with(api_version: String, kind: String, response: Value) -> serde_json::Map<String, Value> {
    [("apiVersion", Value::String(api_version)), ("kind", Value::String(kind)), ("response", response)]
        .into_iter()
        .map(|(key, value)| (key.to_owned(), value))
        .collect()
}

fn convert(mut objects: Vec<Value>, desired: &str) -> Result<Vec<Value>, String> {
    let Some(target) = Version::of_api_version(desired) else {
        return Err(format!(
            "desiredAPIVersion `{desired}` is not known; it must be {} or {}",
            Version::V1Alpha1,
            Version::V1Alpha2
        ));
    };
    for (at, object) in objects.iter_mut().enumerate() {
        conversion::convert(object, target).map_err(|error| format!("request.objects[{at}]: {error}"))?;
    }
    Ok(objects)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn service(version: &str, name: &str) -> Value {
        json!({
            "apiVersion": format!("serving.kserve.io/{version}"), "kind": "LLMInferenceService",
            "metadata": {"name": name, "namespace": "ns"},
            "spec": {"model": {"uri": "hf://a/b"}, "router": {}},
        })
    }

    fn ask(desired: &str, objects: &[Value]) -> Value {
        ask_in("apiextensions.k8s.io/v1", desired, objects)
    }

    fn ask_in(review: &str, desired: &str, objects: &[Value]) -> Value {
        let body = json!({
            "apiVersion": review, "kind": "ConversionReview",
            "request": {"uid": "u-1", "desiredAPIVersion": desired, "objects": objects},
        });
        serde_json::from_slice(&conversion_review(body.to_string().as_bytes()).unwrap()).unwrap()
    }

    #[test]
    fn objects_come_back_in_their_order_in_the_version_of_the_review() {
        for version in ["apiextensions.k8s.io/v1", "apiextensions.k8s.io/v1beta1"] {
            let reply = ask_in(
                version,
                "serving.kserve.io/v1alpha2",
                &[service("v1alpha1", "a"), service("v1alpha1", "b")],
            );
            assert_eq!(
                reply,
                json!({
                    "apiVersion": version, "kind": "ConversionReview",
                    "response": {
                        "uid": "u-1", "result": {"status": "Success"},
                        "convertedObjects": [service("v1alpha2", "a"), service("v1alpha2", "b")],
                    },
                })
            );
        }
        assert_eq!(ask("serving.kserve.io/v1alpha1", &[])["response"]["convertedObjects"], json!([]));
    }

    #[test]
    fn one_object_that_cannot_be_converted_fails_the_review_and_is_named() {
        let objects = [service("v1alpha1", "a"), service("v1alpha2", "b")];
        let response = &ask("serving.kserve.io/v1alpha2", &objects)["response"];
        assert_eq!(
            *response,
            json!({
                "uid": "u-1", "convertedObjects": [],
                "result": {
                    "status": "Failure", "reason": "BadRequest",
                    "message": "request.objects[1]: LLMInferenceService ns/b: apiVersion is serving.kserve.io/v1alpha2 already",
                },
            })
        );
    }

    #[test]
    fn unknown_versions_are_refused_by_name() {
        let message = |desired: &str, version: &str| {
            ask(desired, &[service(version, "a")])["response"]["result"]["message"]
                .as_str()
                .unwrap()
                .to_owned()
        };
        assert_eq!(
            message("serving.kserve.io/v1", "v1alpha1"),
            "desiredAPIVersion `serving.kserve.io/v1` is not known; it must be serving.kserve.io/v1alpha1 or \
             serving.kserve.io/v1alpha2"
        );
        assert_eq!(
            message("serving.kserve.io/v1alpha2", "v1beta1"),
            "request.objects[0]: LLMInferenceService ns/a: apiVersion `serving.kserve.io/v1beta1` is not known; it \
             must be serving.kserve.io/v1alpha1 or serving.kserve.io/v1alpha2"
        );
    }

    #[test]
    fn what_is_no_review_is_malformed() {
        for body in [
            "",
            "{",
            "[]",
            "5",
            "{}",
            r#"{"kind": "ConversionReview"}"#,
            r#"{"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview"}"#,
            r#"{"apiVersion": "apiextensions.k8s.io/v2", "kind": "ConversionReview", "request": {}}"#,
            r#"{"apiVersion": "apiextensions.k8s.io/v1", "kind": "AdmissionReview", "request": {}}"#,
            r#"{"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "request": {"objects": {}}}"#,
        ] {
            assert!(conversion_review(body.as_bytes()).is_err(), "{body}");
        }
    }
}
