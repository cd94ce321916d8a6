//! What an installation has put on a cluster that had nothing before.

use std::collections::BTreeMap;

use parking_lot::{Mutex, MutexGuard};
use serde_json::Value;

use crate::{cluster::installer::Ports, server::Server, tools, wait::until};

/// Everything of which an installation has objects.
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

/// An API server with nothing on it; one at a time.
pub(crate) fn empty() -> Option<(Server, Ports, MutexGuard<'static, ()>)> {
    static TURN: Mutex<()> = Mutex::new(());
    let turn = TURN.lock();
    tools::kubectl()?;
    Some((Server::start()?, Ports::free(), turn))
}

/// What carries the label of an installation, and its resource version.
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

/// The same once nobody writes any more: new presets get a status from the controller.
pub(crate) fn at_rest(server: &Server) -> BTreeMap<String, String> {
    until("the installation is at rest", || {
        let before = installed(server);
        std::thread::sleep(std::time::Duration::from_secs(2));
        (installed(server) == before).then_some(before)
    })
}
