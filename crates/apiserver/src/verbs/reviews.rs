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
    value["status"] = match call.resource.plural.as_str() {
        "selfsubjectreviews" => {
            value["metadata"]["creationTimestamp"] = Value::from(clock::now());
            json!({"userInfo": call.request.user.info()})
        }
        "selfsubjectaccessreviews" | "localsubjectaccessreviews" | "subjectaccessreviews" => {
            json!({"allowed": is_allowed(call, &value["spec"])?})
        }
        "selfsubjectrulesreviews" => rules(call, &std::mem::replace(&mut value["spec"], json!({})))?,
        "tokenreviews" => authenticated(call, &value["spec"])?,
        _ => return Err(ApiError::method_not_allowed()),
    };
    Ok(respond::document(call.request, 201, &value))
}

/// Whether the user that an access review is about may do what it names.
fn is_allowed(call: &Call<'_>, spec: &Value) -> Result<bool, ApiError> {
    let is_own = call.resource.plural == "selfsubjectaccessreviews";
    let causes = access_problems(spec, is_own);
    if !causes.is_empty() {
        // kube-apiserver does not name the kind here
        let about = StatusDetails { group: &call.resource.group, kind: "", name: "" };
        return Err(ApiError::invalid(about, &causes));
    }
    let user = if is_own {
        call.request.user.clone()
    } else if spec["user"].as_str() == Some(&User::administrator().name) {
        User::administrator()
    } else {
        let groups = spec["groups"].as_array().into_iter().flatten();
        User {
            name: spec["user"].as_str().unwrap_or_default().to_owned(),
            groups: groups.filter_map(Value::as_str).map(str::to_owned).collect(),
        }
    };
    if !spec["resourceAttributes"].is_object() {
        let text = |field: &str| spec["nonResourceAttributes"][field].as_str().unwrap_or_default();
        return Ok(rbac::allows_path(&call.state.store, &user, text("verb"), text("path")));
    }
    let text = |field: &str| spec["resourceAttributes"][field].as_str().unwrap_or_default();
    let access = AccessRequest {
        verb: text("verb"),
        group: text("group"),
        resource: text("resource"),
        subresource: text("subresource"),
        name: text("name"),
        namespace: Some(text("namespace")).filter(|namespace| !namespace.is_empty()),
    };
    Ok(rbac::allows(&call.state.store, &user, &access))
}

/// Returns what is wrong with the spec of an access review.
fn access_problems(spec: &Value, is_own: bool) -> Vec<Cause> {
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
    if !is_own && spec["user"].is_null() && spec["groups"].is_null() {
        causes.push(Cause::invalid(
            "spec.user",
            &Value::from(""),
            "at least one of user or group must be specified",
        ));
    }
    causes
}

/// Returns the status of a review of the caller's rules in a namespace.
fn rules(call: &Call<'_>, spec: &Value) -> Result<Value, ApiError> {
    let namespace = spec["namespace"].as_str().unwrap_or_default();
    if namespace.is_empty() {
        return Err(ApiError::bad_request("no namespace on request"));
    }
    let user = &call.request.user;
    let (resources, paths) = if user.is_master() {
        (
            json!([{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]),
            json!([{"verbs": ["*"], "nonResourceURLs": ["*"]}]),
        )
    } else {
        let rules = rbac::rules(&call.state.store, user, Some(namespace));
        let of_resources = rules.into_iter().filter(|rule| rule["resources"].is_array());
        (Value::Array(of_resources.collect()), json!([]))
    };
    Ok(json!({"resourceRules": resources, "nonResourceRules": paths, "incomplete": false}))
}

/// Returns the status of a review of a token.
fn authenticated(call: &Call<'_>, spec: &Value) -> Result<Value, ApiError> {
    let token = spec["token"].as_str().unwrap_or_default();
    if token.is_empty() {
        return Err(ApiError::bad_request("token is required for TokenReview in authentication"));
    }
    let audiences = accounts::audiences_or_own(&spec["audiences"]);
    Ok(match accounts::authenticate(call.state, token, &audiences) {
        Ok(known) => json!({"authenticated": true, "user": known.user.info(), "audiences": known.audiences}),
        Err(why) => json!({"user": {}, "error": why}),
    })
}
