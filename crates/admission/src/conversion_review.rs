//! Responds to a `ConversionReview`.

use std::fmt;

use longboat_api::conversion::{self, Version};
use serde::{
    Deserialize, Deserializer, Serialize,
    de::{Error, SeqAccess, Visitor},
};
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
    #[serde(borrow)]
    objects: Option<&'a RawValue>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Reply<'a> {
    api_version: &'a str,
    kind: &'a str,
    response: Response<'a>,
}

/// The converted objects come last, see [`conversion_review`].
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Response<'a> {
    uid: &'a str,
    result: Outcome,
    converted_objects: [(); 0],
}

#[derive(Serialize)]
struct Outcome {
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
}

/// Reads a list of objects, and appends each one to `text` in the version `target`.
struct Converter<'t> {
    target: Version,
    text: &'t mut Vec<u8>,
    /// Why an object cannot be converted. An error of the parser would have a position in the text of the list instead.
    failure: &'t mut Option<String>,
}

/// Converts the objects of a review. Returns the JSON of the response, with the objects in the same order. If one cannot be
/// converted, the whole review fails with a message that names it.
///
/// # Errors
///
/// [`MalformedReview`] if the body is not a `ConversionReview` of version `v1` or `v1beta1`, because then there is no review to
/// respond to.
pub fn conversion_review(body: &[u8]) -> Result<Vec<u8>, MalformedReview> {
    let (api_version, kind, request): (String, String, ConversionRequest) =
        envelope::read(body, "apiextensions.k8s.io", "ConversionReview")?;
    let reply = |result| {
        let response = Response { uid: &request.uid, result, converted_objects: [] };
        // Strings and numbers can always be serialized.
        serde_json::to_vec(&Reply { api_version: &api_version, kind: &kind, response }).unwrap_or_default()
    };
    let refusal = |why| reply(Outcome { status: "Failure", reason: Some("BadRequest"), message: Some(why) });
    let desired = &request.desired_api_version;
    let Some(target) = Version::of_api_version(desired) else {
        return Ok(refusal(format!(
            "desiredAPIVersion `{desired}` is not supported; expected {} or {}",
            Version::V1Alpha1,
            Version::V1Alpha2
        )));
    };
    // Each object is read, converted and written before the next one is read: a review can hold every object of a cluster.
    let mut text = reply(Outcome { status: "Success", reason: None, message: None });
    let end = text.split_off(text.len() - "]}}".len());
    // The list is open: each object is appended before what follows it.
    let Some(objects) = request.objects else { return Ok([text, end].concat()) };
    text.reserve(objects.get().len() + objects.get().len() / 8);
    let mut failure = None;
    let converter = Converter { target, text: &mut text, failure: &mut failure };
    let read = serde_json::Deserializer::from_str(objects.get()).deserialize_seq(converter);
    match (failure, read) {
        (Some(why), _) => Ok(refusal(why)),
        (None, Err(error)) => Err(MalformedReview(format!("request.objects: {error}"))),
        (None, Ok(())) => {
            text.extend(end);
            Ok(text)
        }
    }
}

// === impl Converter ===

impl<'a> Visitor<'a> for Converter<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a list of objects")
    }

    fn visit_seq<A: SeqAccess<'a>>(self, mut objects: A) -> Result<(), A::Error> {
        let mut at = 0_usize;
        while let Some(object) = objects.next_element()? {
            if at > 0 {
                self.text.push(b',');
            }
            if let Err(why) = write_converted(object, at, self.target, self.text) {
                *self.failure = Some(why);
                return Err(A::Error::custom("an object cannot be converted"));
            }
            at += 1;
        }
        Ok(())
    }
}

fn write_converted(object: &RawValue, at: usize, target: Version, text: &mut Vec<u8>) -> Result<(), String> {
    let mut object = SparseObject::read(object)
        .map_err(|error| format!("request.objects[{at}] cannot be read: {error}"))?;
    conversion::convert(&mut object.tree, target)
        .map_err(|error| format!("request.objects[{at}]: {error}"))?;
    // JSON values can always be serialized, and writing to memory cannot fail.
    let _ = serde_json::to_writer(text, &object);
    Ok(())
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
    fn a_review_of_many_broken_objects_ends_at_the_first() {
        let objects = vec!["null"; 1 << 20].join(",");
        let body = format!(
            r#"{{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview","request":{{"objects":[{objects}],
            "desiredAPIVersion":"serving.kserve.io/v1alpha2","uid":"u"}}}}"#
        );
        let reply: Value = serde_json::from_slice(&conversion_review(body.as_bytes()).unwrap()).unwrap();
        assert_eq!(
            (&reply["response"]["uid"], &reply["response"]["convertedObjects"]),
            (&json!("u"), &json!([]))
        );
        let why = reply["response"]["result"]["message"].as_str().unwrap();
        assert!(why.starts_with("request.objects[0]: "), "{why}");
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
            r#"{"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview",
                "request": {"objects": {}, "desiredAPIVersion": "serving.kserve.io/v1alpha2"}}"#,
        ] {
            assert!(conversion_review(body.as_bytes()).is_err(), "{body}");
        }
    }
}
