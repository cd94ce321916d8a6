//! Measures the cost of large definitions: the memory and time of installing Longboat's own CRDs, of the first object, and
//! of a second check of the definitions.
//!
//! `cargo run --release -p longboat-apiserver --example definitions_cost`

use std::time::Instant;

use kube::{
    Api,
    api::{ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams},
};
use longboat_api::{conversion, crd};
use longboat_apiserver::{ApiServer, Options};
use serde_json::json;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let crds = crd::own();
    report("the definitions as we have them", None);
    let server = ApiServer::new(Options::default())?;
    server.convert_with("serving.kserve.io", |object, version| {
        conversion::convert_to(object, version).map_err(|error| error.to_string())
    });
    report("an empty server", None);
    let client = server.client("default");
    let api = |group: &str, version: &str, kind: &str, plural: &str| {
        ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind), plural)
    };
    let definitions: Api<DynamicObject> = Api::all_with(
        client.clone(),
        &api("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions"),
    );
    let begun = Instant::now();
    for crd in crds {
        let name = crd["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        definitions.patch(&name, &PatchParams::apply("bench").force(), &Patch::Apply(&crd)).await?;
    }
    report("definitions applied", Some(begun));
    for version in ["v1alpha2", "v1alpha1"] {
        let services: Api<DynamicObject> = Api::default_namespaced_with(
            client.clone(),
            &api("serving.kserve.io", version, "LLMInferenceService", "llminferenceservices"),
        );
        let object = json!({
            "apiVersion": format!("serving.kserve.io/{version}"), "kind": "LLMInferenceService",
            "metadata": {"name": version}, "spec": {"model": {"uri": "hf://a/b", "name": "m"}},
        });
        for what in ["first object", "second write"] {
            let begun = Instant::now();
            services.patch(version, &PatchParams::apply("bench").force(), &Patch::Apply(&object)).await?;
            report(&format!("{version}: {what}"), Some(begun));
        }
    }
    let begun = Instant::now();
    let list =
        http::Request::get("/apis/apiextensions.k8s.io/v1/customresourcedefinitions").body(Vec::new())?;
    let length = client.request_text(list).await?.len();
    report(&format!("definitions listed ({length} bytes)"), Some(begun));
    Ok(())
}

#[expect(clippy::print_stdout, reason = "its output is what it is for")]
fn report(what: &str, begun: Option<Instant>) {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let of = |key: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(key)).unwrap_or_default();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap_or(0) / 1024
    };
    let took = begun.map_or_else(String::new, |begun| format!("{:?}", begun.elapsed()));
    println!("{what:45} {:5} MiB, at most {:5} MiB  {took}", of("VmRSS:"), of("VmHWM:"));
}
