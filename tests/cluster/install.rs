//! Longboat's CRDs on a real API server.

use longboat_api::{crd, names::preset};

use crate::{cluster::ExclusiveCluster, tools};

const KINDS: [&str; 2] = ["llminferenceservices", "llminferenceserviceconfigs"];

#[test]
fn our_crds_install_with_create_and_with_server_side_apply_and_nothing_is_warned_about() {
    let Some(cluster) = ExclusiveCluster::take() else { return };
    for [created, applied] in &cluster.installation {
        assert!(created.status.success(), "{created:#?}");
        assert_eq!(created.stderr, "", "kubectl create");
        assert!(applied.status.success(), "{applied:#?}");
        assert_eq!(applied.stderr, "", "kubectl apply --server-side");
    }
    assert_eq!(cluster.installation.len(), crd::own().len() + crd::runtimes().len());
}

#[test]
fn our_schemas_are_structural_and_every_version_is_served() {
    let Some(cluster) = ExclusiveCluster::take() else { return };
    for kind in KINDS {
        let path =
            format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{kind}.serving.kserve.io");
        let crd = cluster.server.api.get(&path).ok();
        let conditions = crd["status"]["conditions"].as_array().unwrap();
        let states: Vec<(&str, &str)> =
            conditions.iter().map(|c| (c["type"].as_str().unwrap(), c["status"].as_str().unwrap())).collect();
        // A schema that is not structural would add the condition NonStructuralSchema.
        assert_eq!(states, [("NamesAccepted", "True"), ("Established", "True")], "{conditions:#?}");
        for version in crd["spec"]["versions"].as_array().unwrap() {
            let name = version["name"].as_str().unwrap();
            assert_eq!(version["served"], true, "{kind} {name}");
            let list = format!("/apis/serving.kserve.io/{name}/namespaces/default/{kind}");
            assert_eq!(cluster.server.api.get(&list).status, 200, "{list}");
        }
    }
}

#[test]
fn client_side_apply_refuses_our_crds_for_their_size() {
    // Client-side apply stores the last applied state in an annotation, which holds 262,144 bytes at most. Each of the CRDs has
    // close to a million bytes, four fifths of them schemas of pods. See `compatibility.yaml#crd-size`.
    let Some(cluster) = ExclusiveCluster::take() else { return };
    for kind in KINDS {
        let file = tools::root().join(format!("deploy/crds/serving.kserve.io_{kind}.yaml"));
        let applied = cluster.kubectl(&["apply", "-f", file.to_str().unwrap(), "--dry-run=server"]);
        let refusal = "metadata.annotations: Too long: may not be more than 262144 bytes";
        assert!(applied.stderr.contains(refusal), "{applied:#?}");
    }
}

#[test]
fn kubectl_explains_our_fields_and_prints_our_columns() {
    let Some(cluster) = ExclusiveCluster::take() else { return };
    let explained = cluster.kubectl(&["explain", "llmisvc.spec.model"]).ok();
    for part in ["KIND:       LLMInferenceService", "VERSION:    v1alpha2", "FIELD: model <", "uri\t<string>"]
    {
        assert!(explained.contains(part), "{part:?} in {explained}");
    }
    let empty = cluster.kubectl(&["get", "llmisvc", "-n", "default"]);
    assert_eq!(empty.stderr, "No resources found in default namespace.\n");
    let presets = cluster.kubectl(&["get", "llminferenceserviceconfigs", "-n", "kserve"]).ok();
    let rows: Vec<&str> = presets.lines().collect();
    assert_eq!(rows.len(), 1 + preset::shipped().count(), "{presets}");
    assert!(rows[0].starts_with("NAME "), "{presets}");
}
