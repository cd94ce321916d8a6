//! Responds to a `ConversionReview`.

use longboat_api::conversion::{self, Version};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::{
    envelope::{self, MalformedReview},
    sparse::SparseObject,
};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ConversionRequest<'a> {
    #[serde(default)]
    uid: String,
    #[serde(default, rename = "desiredAPIVersion")]
    desired_api_version: String,
    #[serde(default, borrow)]
    objects: Vec<&'a RawValue>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Reply<'a> {
    api_version: String,
    kind: String,
    response: Response<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Response<'a> {
    uid: String,
    result: Outcome,
    converted_objects: Vec<SparseObject<'a>>,
}

#[derive(Serialize)]
struct Outcome {
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
}

/// Converts the objects of a review. Returns the JSON of the response, with the objects in the same order. If one cannot be
/// converted, the whole review fails with a message that names it.
///
/// # Errors
///
/// [`MalformedReview`] if the body is not a `ConversionReview` of version `v1` or `v1beta1`, because then there is no review to
/// respond to.
pub fn conversion_review(body: &[u8]) -> Result<Vec<u8>, MalformedReview> {
    let (api_version, kind, asked): (_, _, ConversionRequest) =
        envelope::read(body, "apiextensions.k8s.io", "ConversionReview")?;
    let (result, converted_objects) = match convert(&asked.objects, &asked.desired_api_version) {
        Ok(objects) => (Outcome { status: "Success", reason: None, message: None }, objects),
        Err(why) => {
            (Outcome { status: "Failure", reason: Some("BadRequest"), message: Some(why) }, Vec::new())
        }
    };
    let reply = Reply { api_version, kind, response: Response { uid: asked.uid, result, converted_objects } };
    let mut text = Vec::with_capacity(body.len() + body.len() / 8);
    // Strings and JSON values can always be serialized, and writing to memory cannot fail.
    let _ = serde_json::to_writer(&mut text, &reply);
    Ok(text)
}

fn convert<'a>(objects: &[&'a RawValue], desired: &str) -> Result<Vec<SparseObject<'a>>, String> {
    let Some(target) = Version::of_api_version(desired) else {
        return Err(format!(
            "desiredAPIVersion `{desired}` is not supported; expected {} or {}",
            Version::V1Alpha1,
            Version::V1Alpha2
        ));
    };
    let converted = objects.iter().enumerate().map(|(at, object)| {
        let mut object = SparseObject::read(object)
            .map_err(|error| format!("request.objects[{at}] cannot be read: {error}"))?;
        conversion::convert(&mut object.tree, target)
            .map_err(|error| format!("request.objects[{at}]: {error}"))?;
        Ok(object)
    });
    converted.collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

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
            "desiredAPIVersion `serving.kserve.io/v1` is not supported; expected \
             serving.kserve.io/v1alpha1 or serving.kserve.io/v1alpha2"
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
