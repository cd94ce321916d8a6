//! The environment: the sources of credentials and their order, and proxies.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

use serde_json::json;

use crate::{
    COMMIT, HubFixture, fetch, process,
    servers::{Answer, Request, Servers, contents::git_blob},
};

async fn serve(
    servers: &Arc<Servers>,
    name: &'static str,
    handler: impl Fn(&Request) -> Answer + Send + Sync + 'static,
) -> String {
    format!("http://{}", servers.serve(name, Arc::new(handler)).await)
}

/// Returns the `Authorization` headers that a server received during one download.
async fn shown(
    servers: &Arc<Servers>,
    server: &str,
    uri: &str,
    variables: &[(&str, String)],
    to: &Path,
) -> Vec<Option<String>> {
    servers.log.lock().clear();
    let variables = variables.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
    let _ = std::fs::remove_dir_all(to);
    fetch(&[uri.to_owned(), to.display().to_string()], variables).await.unwrap();
    let log = servers.log.lock();
    let requests = log.iter().filter(|request| request.server == server);
    let mut shown: Vec<_> =
        requests.map(|request| request.header("authorization").map(str::to_owned)).collect();
    shown.dedup();
    shown
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_for_s3_come_from_the_first_place_that_has_any() {
    longboat_tls::install_default_provider();
    let servers = Arc::new(Servers::default());
    let store = serve(&servers, "s3", |request| {
        if request.query("list-type").is_none() {
            return Answer::new(200, "x");
        }
        let object = "<Contents><Key>m/a</Key><ETag>e</ETag><Size>1</Size></Contents>";
        Answer::new(200, format!("<ListBucketResult>{object}</ListBucketResult>"))
    })
    .await;
    let sts = serve(&servers, "sts", |_| {
        let keys = "<AccessKeyId>WEB</AccessKeyId><SecretAccessKey>s</SecretAccessKey><SessionToken>t</SessionToken>\
                    <Expiration>2100-01-01T00:00:00Z</Expiration>";
        Answer::new(
            200,
            format!(
                "<AssumeRoleWithWebIdentityResponse><AssumeRoleWithWebIdentityResult><Credentials>{keys}</Credentials>\
                 </AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>"
            ),
        )
    })
    .await;
    let keys = |id: &str| json!({"AccessKeyId": id, "SecretAccessKey": "s", "Token": "t"}).to_string();
    let container = serve(&servers, "container", move |_| Answer::new(200, keys("BOX"))).await;
    let machine = serve(&servers, "machine", move |request| match request.path() {
        "/latest/api/token" => Answer::new(200, "session"),
        "/latest/meta-data/iam/security-credentials/" => Answer::new(200, "role"),
        "/latest/meta-data/iam/security-credentials/role" => Answer::new(200, keys("MACHINE")),
        _ => Answer::new(404, ""),
    })
    .await;
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        std::fs::write(dir.path().join(name), text).unwrap();
        dir.path().join(name).display().to_string()
    };
    let mut variables = vec![
        ("AWS_ENDPOINT_URL", store),
        ("AWS_ENDPOINT_URL_STS", sts),
        ("AWS_EC2_METADATA_SERVICE_ENDPOINT", machine),
        ("AWS_CONTAINER_CREDENTIALS_FULL_URI", container),
        (
            "AWS_SHARED_CREDENTIALS_FILE",
            file("keys", "[default]\naws_access_key_id=FILE\naws_secret_access_key=s\n"),
        ),
        ("AWS_WEB_IDENTITY_TOKEN_FILE", file("token", "t")),
        ("AWS_ROLE_ARN", "arn:r".to_owned()),
        ("AWS_ACCESS_KEY_ID", "ENV".to_owned()),
        ("AWS_SECRET_ACCESS_KEY", "s".to_owned()),
        ("awsAnonymousCredential", "True".to_owned()),
    ];
    let to = dir.path().join("m");
    for (expected, without) in [
        (None, 1),
        (Some("ENV"), 2),
        (Some("WEB"), 2),
        (Some("FILE"), 1),
        (Some("BOX"), 1),
        (Some("MACHINE"), 0),
    ] {
        let shown = shown(&servers, "s3", "s3://b/m", &variables, &to).await;
        let expected = expected.map(|id| format!("Credential={id}/"));
        for header in shown {
            match &expected {
                None => assert_eq!(header, None),
                Some(expected) => {
                    assert!(header.as_ref().unwrap().contains(expected), "{expected}: {header:?}");
                }
            }
        }
        variables.truncate(variables.len() - without);
    }
}

/// Serves a bucket with one file, and returns its address.
async fn gcs_store(servers: &Arc<Servers>) -> String {
    serve(servers, "gcs", |request| {
        let is_list = request.path().ends_with("/o");
        let list = json!({"items": [{"name": "m/a", "size": "1", "generation": "1"}]}).to_string();
        Answer::new(200, if is_list { list } else { "x".to_owned() })
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_for_gcs_come_from_the_file_then_the_machine_and_else_nobody_asks() {
    longboat_tls::install_default_provider();
    let servers = Arc::new(Servers::default());
    let store = gcs_store(&servers).await;
    let token = |name: &'static str| {
        move |_: &Request| Answer::new(200, json!({"access_token": name, "expires_in": 3600}).to_string())
    };
    let account = serve(&servers, "account", token("FILE")).await;
    let machine = serve(&servers, "machine", token("MACHINE")).await;
    let dir = tempfile::tempdir().unwrap();
    let person = json!({"type": "authorized_user", "client_id": "c", "client_secret": "s", "refresh_token": "r",
        "token_uri": account});
    std::fs::write(dir.path().join("person"), person.to_string()).unwrap();
    let machine = machine.trim_start_matches("http://").to_owned();
    let mut variables = vec![
        ("API_ENDPOINT_OVERRIDE", store),
        ("GCE_METADATA_HOST", machine),
        ("GOOGLE_APPLICATION_CREDENTIALS", dir.path().join("person").display().to_string()),
    ];
    let to = dir.path().join("m");
    let bearer = |name: &str| vec![Some(format!("Bearer {name}"))];
    assert_eq!(shown(&servers, "gcs", "gs://b/m", &variables, &to).await, bearer("FILE"));
    variables.pop();
    assert_eq!(shown(&servers, "gcs", "gs://b/m", &variables, &to).await, bearer("MACHINE"));
    variables.push(("NO_GCE_CHECK", "true".to_owned()));
    assert_eq!(shown(&servers, "gcs", "gs://b/m", &variables, &to).await, [None]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_machine_that_fails_once_does_not_make_the_rest_of_a_download_anonymous() {
    longboat_tls::install_default_provider();
    let servers = Arc::new(Servers::default());
    let store = gcs_store(&servers).await;
    // A token that ends soon, so each request asks for another one.
    let asked = AtomicUsize::new(0);
    let machine = serve(&servers, "machine", move |_| match asked.fetch_add(1, Relaxed) {
        0 => Answer::new(200, json!({"access_token": "MACHINE", "expires_in": 100}).to_string()),
        _ => Answer::new(503, ""),
    })
    .await;
    let machine = machine.trim_start_matches("http://").to_owned();
    let variables = [("API_ENDPOINT_OVERRIDE", store), ("GCE_METADATA_HOST", machine)];
    let dir = tempfile::tempdir().unwrap();
    let shown = shown(&servers, "gcs", "gs://b/m", &variables, &dir.path().join("m")).await;
    assert_eq!(shown, [Some("Bearer MACHINE".to_owned())]);
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_for_the_hub_come_from_the_environment_before_files() {
    longboat_tls::install_default_provider();
    let servers = Arc::new(Servers::default());
    let hub = serve(&servers, "hub", |request| {
        if request.path().starts_with("/api/") {
            let file = json!({"rfilename": "a", "size": 1, "blobId": git_blob(b"x")});
            return Answer::new(200, json!({"sha": COMMIT, "siblings": [file]}).to_string());
        }
        Answer::new(200, "x")
    })
    .await;
    let dir = tempfile::tempdir().unwrap();
    let home = dir.path().join("hf");
    std::fs::create_dir(&home).unwrap();
    std::fs::write(home.join("token"), "HOME\n").unwrap();
    std::fs::write(dir.path().join("token"), "PATH\n").unwrap();
    let mut variables = vec![
        ("HF_ENDPOINT", hub),
        ("HF_HOME", home.display().to_string()),
        ("HF_TOKEN_PATH", dir.path().join("token").display().to_string()),
        ("HUGGING_FACE_HUB_TOKEN", "OLD".to_owned()),
        ("HF_TOKEN", "NEW".to_owned()),
    ];
    let to = dir.path().join("m");
    for expected in ["NEW", "OLD", "PATH", "HOME"] {
        let shown = shown(&servers, "hub", "hf://org/m", &variables, &to).await;
        assert_eq!(shown, [Some(format!("Bearer {expected}"))]);
        variables.pop();
    }
    variables.push(("HF_HOME", home.display().to_string()));
    variables.push(("HF_HUB_DISABLE_IMPLICIT_TOKEN", "1".to_owned()));
    assert_eq!(shown(&servers, "hub", "hf://org/m", &variables, &to).await, [None]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_proxy_of_the_environment_is_used() {
    let world = HubFixture::with_model(vec![1; 10]).await;
    let content = Arc::new(b"weights".to_vec());
    let proxy = serve(&world.servers, "proxy", move |request| match request.target.as_str() {
        "http://models.invalid/w.bin" => Answer::file(&content),
        _ => Answer::new(404, ""),
    })
    .await;
    let to = world.folder.path().join("m");
    let pairs = ["http://models.invalid/w.bin".to_owned(), to.display().to_string()];
    let output =
        process(&pairs, world.variables(&[("HTTP_PROXY", &proxy), ("http_proxy", &proxy)]), None).output();
    assert!(output.unwrap().status.success());
    assert!(world.read("m/w.bin") == b"weights");
    // Hosts in `NO_PROXY` are contacted directly.
    let direct = [("http_proxy", proxy.as_str()), ("NO_PROXY", "127.0.0.1")];
    let before = world.servers.sent.load(Relaxed);
    let pairs = ["hf://org/m".to_owned(), world.folder.path().join("d").display().to_string()];
    assert!(process(&pairs, world.variables(&direct), None).output().unwrap().status.success());
    assert!(world.servers.sent.load(Relaxed) > before);
    let log = world.requests();
    assert_eq!(log.iter().filter(|request| request.server == "proxy").count(), 1);
}
