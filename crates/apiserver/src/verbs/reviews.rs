//! Reviews: the server answers them and stores nothing.

use serde_json::{Value, json};

use super::{Call, incoming};
use crate::{
    accounts,
    answer::Answer,
    clock,
    rbac::{self, AccessRequest},
    request::User,
    respond,
    status::{ApiError, Cause, StatusDetails},
};

/// `POST …/<reviews>`.
pub(crate) fn review(call: &mut Call<'_>) -> Result<Answer, ApiError> {
    let mut value = incoming::object(call, "CreateOptions")?;
    if !value["metadata"].is_object() {
        value["metadata"] = json!({});
    }
    let user = &call.request.user;
    let refuse = |causes: &[Cause]| {
        // kube-apiserver does not name the kind here
        Err(ApiError::invalid(StatusDetails { group: &call.resource.group, kind: "", name: "" }, causes))
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
            let asked = if call.resource.plural == "selfsubjectaccessreviews" {
                user.clone()
            } else if spec["user"].as_str() == Some(&User::administrator().name) {
                User::administrator()
            } else {
                let groups = spec["groups"].as_array().into_iter().flatten();
                User {
                    name: spec["user"].as_str().unwrap_or_default().to_owned(),
                    groups: groups.filter_map(Value::as_str).map(str::to_owned).collect(),
                }
            };
            let text = |field: &str| spec["resourceAttributes"][field].as_str().unwrap_or_default();
            let wish = AccessRequest {
                verb: text("verb"),
                group: text("group"),
                resource: text("resource"),
                subresource: text("subresource"),
                name: text("name"),
                namespace: Some(text("namespace")).filter(|namespace| !namespace.is_empty()),
            };
            let of_path = |field: &str| spec["nonResourceAttributes"][field].as_str().unwrap_or_default();
            let allowed = if resource {
                rbac::allows(&call.state.store, &asked, &wish)
            } else {
                rbac::allows_path(&call.state.store, &asked, of_path("verb"), of_path("path"))
            };
            value["status"] = json!({"allowed": allowed});
        }
        "selfsubjectrulesreviews" => {
            let namespace = value["spec"]["namespace"].as_str().unwrap_or_default().to_owned();
            if namespace.is_empty() {
                return Err(ApiError::bad_request("no namespace on request"));
            }
            let (resources, paths) = if user.is_master() {
                (
                    json!([{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]),
                    json!([{"verbs": ["*"], "nonResourceURLs": ["*"]}]),
                )
            } else {
                let rules = rbac::rules(&call.state.store, user, Some(&namespace));
                let of_resources = rules.into_iter().filter(|rule| rule["resources"].is_array());
                (Value::Array(of_resources.collect()), json!([]))
            };
            value["spec"] = json!({});
            value["status"] =
                json!({"resourceRules": resources, "nonResourceRules": paths, "incomplete": false});
        }
        "tokenreviews" => {
            let token = value["spec"]["token"].as_str().unwrap_or_default();
            if token.is_empty() {
                return Err(ApiError::bad_request("token is required for TokenReview in authentication"));
            }
            let audiences = accounts::audiences_or_own(&value["spec"]["audiences"]);
            value["status"] = match accounts::authenticate(call.state, token, &audiences) {
                Ok(known) => {
                    json!({"authenticated": true, "user": known.user.info(), "audiences": known.audiences})
                }
                Err(why) => json!({"user": {}, "error": why}),
            };
        }
        _ => return Err(ApiError::method_not_allowed()),
    }
    Ok(respond::document(call.request, 201, &value))
}
