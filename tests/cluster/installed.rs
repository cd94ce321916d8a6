//! The objects that an installation has created on an empty cluster.

use std::collections::BTreeMap;

use parking_lot::{Mutex, MutexGuard};
use serde_json::Value;

use crate::{cluster::installer::Ports, server::Server, tools, wait::until};

/// The kinds of which an installation has objects.
const KINDS: [&str; 13] = [
    "apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations",
    "apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
    "apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    "apis/apps/v1/deployments",
    "apis/policy/v1/poddisruptionbudgets",
    "apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
    "apis/rbac.authorization.k8s.io/v1/clusterroles",
    "apis/rbac.authorization.k8s.io/v1/rolebindings",
    "apis/rbac.authorization.k8s.io/v1/roles",
    "apis/serving.kserve.io/v1alpha2/llminferenceserviceconfigs",
    "api/v1/configmaps",
    "api/v1/serviceaccounts",
    "api/v1/services",
];

/// Starts an empty API server. Only one test at a time has one.
pub(crate) fn empty() -> Option<(Server, Ports, MutexGuard<'static, ()>)> {
    static TURN: Mutex<()> = Mutex::new(());
    let turn = TURN.lock();
    tools::kubectl()?;
    Some((Server::start()?, Ports::free(), turn))
}

/// Returns the resourceVersions of all objects with the label of an installation, by kind, namespace and name.
pub(crate) fn installed(server: &Server) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    for kind in KINDS {
        let path = format!("/{kind}?labelSelector=longboat.dev%2Finstallation");
        let answer = server.api.get(&path);
        if answer.status == 404 {
            continue;
        }
        for object in answer.ok()["items"].as_array().unwrap() {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let metadata = &object["metadata"];
            let name = format!("{kind}/{}/{}", text(&metadata["namespace"]), text(&metadata["name"]));
            all.insert(name, text(&metadata["resourceVersion"]));
        }
    }
    all
}

/// Like [`installed`], but first waits until nothing changes any more: the controller writes a status to new presets.
pub(crate) fn at_rest(server: &Server) -> BTreeMap<String, String> {
    until("the installation is at rest", || {
        let before = installed(server);
        std::thread::sleep(std::time::Duration::from_secs(2));
        (installed(server) == before).then_some(before)
    })
}
