//! Reviews: questions that are answered and not stored. Whoever got in may do everything here.

use serde_json::{Value, json};

use super::{Call, incoming};
use crate::{
    answer::Answer,
    clock, respond,
    status::{About, ApiError, Cause},
};

/// `POST …/<reviews>`.
pub(crate) fn review(call: &mut Call<'_>) -> Result<Answer, ApiError> {
    let mut value = incoming::object(call, "CreateOptions")?;
    if !value["metadata"].is_object() {
        value["metadata"] = json!({});
    }
    let user = &call.request.user;
    let refuse = |causes: &[Cause]| {
        // the reference does not name the kind here
        Err(ApiError::invalid(About { group: &call.resource.group, kind: "", name: "" }, causes))
    };
    match call.resource.plural.as_str() {
        "selfsubjectreviews" => {
            value["metadata"]["creationTimestamp"] = Value::from(clock::now());
            value["status"] = json!({"userInfo": user.info()});
        }
        "selfsubjectaccessreviews" | "localsubjectaccessreviews" | "subjectaccessreviews" => {
            let spec = &value["spec"];
            let resource = spec["resourceAttributes"].is_object();
            let path = spec["nonResourceAttributes"].is_object();
            let mut causes = Vec::new();
            if resource && path {
                causes.push(Cause::invalid(
                    "spec.nonResourceAttributes",
                    &spec["nonResourceAttributes"],
                    "cannot be specified in combination with resourceAttributes",
                ));
            }
            if !resource && !path {
                causes.push(Cause::invalid(
                    "spec.resourceAttributes",
                    &Value::Null,
                    "exactly one of nonResourceAttributes or resourceAttributes must be specified",
                ));
            }
            if call.resource.plural != "selfsubjectaccessreviews"
                && spec["user"].is_null()
                && spec["groups"].is_null()
            {
                causes.push(Cause::invalid(
                    "spec.user",
                    &Value::from(""),
                    "at least one of user or group must be specified",
                ));
            }
            if !causes.is_empty() {
                return refuse(&causes);
            }
            // nobody but the bearer of the token has any rights: others are unknown here
            let asked = spec["user"].as_str();
            let masters =
                spec["groups"].as_array().is_some_and(|groups| groups.iter().any(|g| g == "system:masters"));
            let allowed =
                call.resource.plural == "selfsubjectaccessreviews" || asked == Some(&user.name) || masters;
            value["status"] = json!({"allowed": allowed});
        }
        "selfsubjectrulesreviews" => {
            if value["spec"]["namespace"].as_str().is_none_or(str::is_empty) {
                return Err(ApiError::bad_request("no namespace on request"));
            }
            value["spec"] = json!({});
            value["status"] = json!({
                "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
                "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
                "incomplete": false,
            });
        }
        "tokenreviews" => {
            let token = value["spec"]["token"].as_str().unwrap_or_default();
            if token.is_empty() {
                return Err(ApiError::bad_request("token is required for TokenReview in authentication"));
            }
            value["status"] = match &call.state.options.token {
                Some(expected) if expected == token => json!({"authenticated": true, "user": user.info()}),
                _ => json!({"user": {}, "error": "invalid bearer token"}),
            };
        }
        _ => return Err(ApiError::method_not_allowed()),
    }
    Ok(respond::document(call.request, 201, &value))
}
