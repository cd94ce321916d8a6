//! Installs and removes CRDs while the controller runs.

use serde_json::{Value, json};

use crate::{api::Api, wait::until};

pub(crate) const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// Returns a CRD of the server in the form in which somebody would create it.
pub(crate) fn definition(server: &Api, name: &str) -> Value {
    let found = server.get(&format!("{CRDS}/{name}")).ok();
    let annotations = &found["metadata"]["annotations"];
    json!({
        "apiVersion": found["apiVersion"], "kind": found["kind"],
        "metadata": {"name": name, "annotations": annotations}, "spec": found["spec"],
    })
}

pub(crate) fn remove_api(server: &Api, name: &str) {
    server.delete(&format!("{CRDS}/{name}")).ok();
    until("an API is gone", || server.get(&format!("{CRDS}/{name}")).status == 404);
}

pub(crate) fn install_api(server: &Api, definition: &Value) {
    // The server limits a write to 34 seconds. A large CRD may take longer on a busy machine, and may be stored in spite of the
    // timeout: 409 follows.
    until("the API server has checked a CRD in time", || {
        let answer = server.post(CRDS, definition);
        assert!(
            answer.status < 300 || [409, 504].contains(&answer.status),
            "{}: {:#}",
            answer.status,
            answer.body
        );
        answer.status != 504
    });
    let (group, versions) =
        (&definition["spec"]["group"], definition["spec"]["versions"].as_array().unwrap());
    let first = versions.iter().find(|version| version["served"] == true).unwrap();
    let plural = definition["spec"]["names"]["plural"].as_str().unwrap();
    let path = format!("/apis/{}/{}/{plural}", group.as_str().unwrap(), first["name"].as_str().unwrap());
    until("an API is served", || server.get(&path).status == 200);
}
