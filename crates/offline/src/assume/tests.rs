//! What Secrets give a download, with and without the Secrets in the manifests.

use crate::{
    render::{self, Severity},
    tests::scene_of,
};

/// A service with this model and these further fields of its metadata, in the namespace `default`.
fn downloading(uri: &str, metadata: &str) -> String {
    format!(
        "apiVersion: serving.kserve.io/v1alpha2\nkind: LLMInferenceService\nmetadata: {{name: chat{metadata}}}\n\
         spec:\n  model: {{uri: '{uri}', name: chat}}\n"
    )
}

fn secret(name: &str, content: &str) -> String {
    format!("---\napiVersion: v1\nkind: Secret\nmetadata: {{name: {name}}}\n{content}\n")
}

/// Returns the variables of the storage initializer, each as `NAME=VALUE`, or as `NAME<KEY` if a Secret has its value; its
/// mounted Secrets; and the assumptions.
fn credentials(text: &str) -> (Vec<String>, Vec<String>) {
    let scene = scene_of(text);
    let rendered = render::children(&scene, &scene.subjects[0].service).unwrap();
    assert!(!rendered.incomplete, "{:?}", rendered.notes);
    let deployment = rendered.objects.iter().find(|object| object.value["kind"] == "Deployment").unwrap();
    let pod = &deployment.value["spec"]["template"]["spec"];
    let env = pod["initContainers"][0]["env"].as_array().cloned().unwrap_or_default();
    let variables =
        env.iter().filter(|variable| !variable["name"].as_str().unwrap().starts_with("LONGBOAT_"));
    let mut given: Vec<String> = variables
        .map(|variable| match variable["valueFrom"]["secretKeyRef"]["key"].as_str() {
            Some(key) => format!("{}<{key}", variable["name"].as_str().unwrap()),
            None => format!("{}={}", variable["name"].as_str().unwrap(), variable["value"].as_str().unwrap()),
        })
        .collect();
    let mounted = pod["volumes"].as_array().unwrap().iter().filter_map(|volume| {
        let name = volume["secret"]["secretName"].as_str()?;
        (!name.ends_with("-certs")).then(|| format!("mounts {name}"))
    });
    given.extend(mounted);
    let assumed = rendered.notes.into_iter().filter(|note| note.severity == Severity::Assumed);
    (given, assumed.map(|note| note.message).collect())
}

#[test]
fn what_a_secret_in_the_manifests_gives_a_download_is_rendered() {
    let annotated =
        downloading("s3://bucket/m", ", annotations: {serving.kserve.io/storageSecretName: keys}");
    let table = [
        (
            "stringData: {AWS_ACCESS_KEY_ID: a, AWS_SECRET_ACCESS_KEY: b, S3_ENDPOINT: 'minio:9000', S3_USE_HTTPS: '0'}",
            vec![
                "AWS_ACCESS_KEY_ID<AWS_ACCESS_KEY_ID",
                "AWS_SECRET_ACCESS_KEY<AWS_SECRET_ACCESS_KEY",
                "S3_USE_HTTPS=0",
                "S3_ENDPOINT=minio:9000",
                "AWS_ENDPOINT_URL=http://minio:9000",
            ],
        ),
        (
            "stringData: {gcloud-application-credentials.json: '{}'}",
            vec![
                "GOOGLE_APPLICATION_CREDENTIALS=/var/secrets/gcloud-application-credentials.json",
                "mounts keys",
            ],
        ),
        (
            "stringData: {AZ_CLIENT_ID: a, AZ_TENANT_ID: b}",
            vec!["AZURE_TENANT_ID<AZ_TENANT_ID", "AZURE_CLIENT_ID<AZ_CLIENT_ID"],
        ),
        (
            "stringData: {AZURE_STORAGE_ACCESS_KEY: a}",
            vec!["AZURE_STORAGE_ACCESS_KEY<AZURE_STORAGE_ACCESS_KEY"],
        ),
        ("stringData: {https-host: example.com, headers: '{}'}", vec!["example.com-headers<headers"]),
        ("stringData: {HDFS_NAMENODE: a}", vec!["mounts keys"]),
        ("stringData: {HF_TOKEN: a}", vec!["HF_TOKEN<HF_TOKEN"]),
        ("stringData: {MODELSCOPE_API_TOKEN: a}", vec!["MODELSCOPE_API_TOKEN<MODELSCOPE_API_TOKEN"]),
    ];
    for (content, expected) in table {
        let (given, assumed) = credentials(&(annotated.clone() + &secret("keys", content)));
        assert_eq!(given, expected, "{content}");
        assert_eq!(assumed, Vec::<String>::new(), "{content}");
        // The Secret may also belong to the account that pods use if they name none.
        let account =
            "---\napiVersion: v1\nkind: ServiceAccount\nmetadata: {name: default}\nsecrets: [{name: keys}]\n";
        let text = downloading("s3://bucket/m", "") + &secret("keys", content) + account;
        assert_eq!(credentials(&text), (given, assumed), "{content}");
    }
}

#[test]
fn a_role_of_an_account_is_rendered() {
    let account = "---\napiVersion: v1\nkind: ServiceAccount\nmetadata: {name: default, annotations: {eks.amazonaws.com/role-arn: a, serving.kserve.io/s3-region: eu}}\n";
    let (given, assumed) = credentials(&(downloading("s3://bucket/m", "") + account));
    assert_eq!(given, ["AWS_DEFAULT_REGION=eu"]);
    assert_eq!(assumed, Vec::<String>::new());
}

#[test]
fn secrets_that_the_manifests_do_not_hold_are_assumed_and_that_is_said() {
    let unknown = |name: &str| {
        format!(
            "Secret default/{name} exists; its keys are not known, so the variables and volumes that they give the download are left out"
        )
    };
    let annotated =
        downloading("s3://bucket/m", ", annotations: {serving.kserve.io/storageSecretName: keys}");
    assert_eq!(credentials(&annotated), (vec![], vec![unknown("keys")]));
    // An account with two Secrets: planning stops at each of them.
    let account = "---\napiVersion: v1\nkind: ServiceAccount\nmetadata: {name: default}\nsecrets: [{name: one}, {name: two}]\n";
    let of_account = downloading("hf://a/b", "") + account;
    assert_eq!(credentials(&of_account).1, [unknown("one"), unknown("two")]);
    let nothing = credentials(&downloading("s3://bucket/m", ""));
    assert_eq!(nothing.1, ["ServiceAccount default/default has no Secrets with credentials"]);
    assert_eq!(credentials(&downloading("hf://a/b", "")).1, Vec::<String>::new());
    // Nothing is downloaded, so nobody reads the Secret.
    let mounted = downloading("pvc://claim", ", annotations: {serving.kserve.io/storageSecretName: keys}");
    let scene = scene_of(&mounted);
    assert_eq!(scene.plan(&scene.subjects[0].service).unwrap().assumed, Vec::<String>::new());
}
