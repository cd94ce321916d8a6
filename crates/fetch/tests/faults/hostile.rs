//! Malicious servers. Each download must fail with one sentence. Nothing may be written outside of the target or under a final
//! name, and no credential may be sent to another host.

use std::{
    os::unix::fs::symlink,
    path::Path,
    sync::{Arc, atomic::Ordering::Relaxed},
};

use longboat_fetch::FetchError;
use serde_json::json;

use crate::{
    COMMIT, HubFixture, fault, fetch, has_files,
    servers::{
        Answer, Effect, Request, Servers,
        contents::{git_blob, recipe, sha256},
    },
};

type Handler = Arc<dyn Fn(&Request) -> Answer + Send + Sync>;

/// Fetches from this server, which must fail. Returns the error message.
async fn refused(servers: &Arc<Servers>, uri: &str, variables: &[(&str, &str)], to: &Path) -> String {
    let mut all = vec![
        ("HOME", "/nonexistent"),
        ("HF_TOKEN", "hf_s3cr3t"),
        ("AWS_ACCESS_KEY_ID", "k"),
        ("AWS_SECRET_ACCESS_KEY", "s3cr3t"),
        ("LONGBOAT_FETCH_PATIENCE", "3"),
    ];
    all.extend(variables);
    let all = all.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    let error = fetch(&[uri.to_owned(), to.display().to_string()], all).await.unwrap_err().to_string();
    assert!(!error.contains('\n') && !error.contains("s3cr3t") && error.len() < 600, "{error}");
    assert!(!has_files(to), "{error}");
    let log = servers.log.lock();
    let to_others = log.iter().filter(|request| request.server == "other");
    for request in to_others {
        let names = ["authorization", "x-secret", "cookie"];
        assert!(names.iter().all(|name| request.header(name).is_none()), "{request:?}");
    }
    error
}

async fn serve(servers: &Arc<Servers>, name: &'static str, handler: Handler) -> String {
    format!("http://{}", servers.serve(name, handler).await)
}

fn model(files: &serde_json::Value) -> Answer {
    Answer::new(200, json!({"sha": COMMIT, "siblings": files}).to_string())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_next_page_on_another_host_is_not_asked_for() {
    longboat_tls::install_default_provider();
    let servers = Arc::new(Servers::default());
    let other = serve(&servers, "other", Arc::new(|_| Answer::new(200, "[]"))).await;
    let page = move |request: &Request| {
        if request.path().contains("/revision/") {
            let files: Vec<_> = (0..50_001).map(|number| json!({"rfilename": number.to_string()})).collect();
            return model(&json!(files));
        }
        Answer::new(200, r#"[{"type":"directory","path":"d"}]"#)
            .with("Link", format!("<{other}/latest/meta-data>; rel=\"next\""))
    };
    let hub = serve(&servers, "hub", Arc::new(page)).await;
    let dir = tempfile::tempdir().unwrap();
    let error = refused(&servers, "hf://org/m", &[("HF_ENDPOINT", &hub)], dir.path()).await;
    assert!(error.contains("on another host"), "{error}");
    assert!(servers.log.lock().iter().all(|request| request.server == "hub"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_a_registry_redirects_to_gets_no_credentials() {
    longboat_tls::install_default_provider();
    let servers = Arc::new(Servers::default());
    let asking = |request: &Request| {
        let realm = format!("http://{}/token", request.header("host").unwrap());
        Answer::new(401, "").with("WWW-Authenticate", format!("Bearer realm=\"{realm}\",service=\"x\""))
    };
    let other = serve(&servers, "other", Arc::new(asking)).await;
    let redirect = move |request: &Request| {
        if request.header("authorization") == Some("Basic dXNlcjpwYXNz") {
            return Answer::new(307, "").with("Location", format!("{other}{}", request.target));
        }
        Answer::new(401, "").with("WWW-Authenticate", "Basic realm=\"reg\"")
    };
    let address = servers.serve("reg", Arc::new(redirect)).await;
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("config.json");
    std::fs::write(&config, json!({"auths": {address.to_string(): {"auth": "dXNlcjpwYXNz"}}}).to_string())
        .unwrap();
    let variables =
        [("KSERVE_OCI_INSECURE_REGISTRY", "true"), ("KSERVE_OCI_DOCKER_CONFIG", config.to_str().unwrap())];
    let error = refused(&servers, &format!("oci://{address}/o/m:1"), &variables, &dir.path().join("m")).await;
    assert!(error.contains("OCI authentication failed"), "{error}");
    let log = servers.log.lock();
    assert!(log.iter().any(|request| request.server == "reg" && request.header("authorization").is_some()));
    assert!(log.iter().any(|request| request.server == "other"));
}

#[tokio::test(flavor = "multi_thread")]
async fn indexes_without_an_end_or_a_digest_are_refused() {
    longboat_tls::install_default_provider();
    let of = |digest: &str| json!({"manifests": [{"digest": digest}]}).to_string();
    let inner = of("sha256:0");
    let named = format!("sha256:{}", sha256(inner.as_bytes()));
    for (first, says) in [(of(&named), "another index"), (of("../../secrets"), "expected sha256")] {
        let servers = Arc::new(Servers::default());
        let inner = inner.clone();
        let manifests = move |request: &Request| {
            Answer::new(200, if request.path().ends_with("/1") { first.clone() } else { inner.clone() })
        };
        let address = servers.serve("reg", Arc::new(manifests)).await;
        let dir = tempfile::tempdir().unwrap();
        let insecure = [("KSERVE_OCI_INSECURE_REGISTRY", "true")];
        let error = refused(&servers, &format!("oci://{address}/o/m:1"), &insecure, dir.path()).await;
        assert!(error.contains(says), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_that_mean_harm_are_refused_before_the_first_byte() {
    longboat_tls::install_default_provider();
    let file = |path: &str| json!({"rfilename": path, "size": 3, "blobId": "b".repeat(40)});
    let long = "x/".repeat(3000);
    let huge = json!({"rfilename": "w", "size": u64::MAX, "blobId": "b".repeat(40)});
    let lists: Vec<(&str, Answer)> = vec![
        ("leaves the target folder", model(&json!([file("a"), file("../b")]))),
        ("it is absolute", model(&json!([file("/etc/passwd")]))),
        ("control characters", model(&json!([file("a\u{1b}[2J")]))),
        ("is reserved for the state", model(&json!([file(".longboat/x.journal")]))),
        ("is also a file of the source", model(&json!([file("a"), file("a/b")]))),
        ("two files of the source", model(&json!([file("a"), file("a")]))),
        ("longer than 3072", model(&json!([file(&format!("{long}a"))]))),
        ("more than 100 parts", model(&json!([file(&format!("{}a", &long[..2000]))]))),
        ("not enough space", model(&json!([huge, file("a")]))),
        (
            "cannot read the list of files",
            Answer::new(200, [0x1f, 0x8b, 8, 0, 0]).with("Content-Encoding", "gzip"),
        ),
        ("cannot read the list of files", Answer::new(200, "[".repeat(1 << 20))),
        ("the commit of the model", Answer::new(200, r#"{"sha":"../../x","siblings":[]}"#)),
    ];
    for (says, answer) in lists {
        let servers = Arc::new(Servers::default());
        let hub = serve(&servers, "hub", Arc::new(move |_| answer.clone())).await;
        let dir = tempfile::tempdir().unwrap();
        let error = refused(&servers, "hf://org/m", &[("HF_ENDPOINT", &hub)], dir.path()).await;
        assert!(error.contains(says), "{says}: {error}");
        assert!(servers.log.lock().iter().all(|request| request.path().starts_with("/api/")), "{error}");
    }
    let bomb = format!(
        "<!DOCTYPE a [<!ENTITY a \"{}\"><!ENTITY b \"&a;&a;\">]><ListBucketResult><Contents><Key>&b;</Key></Contents></ListBucketResult>",
        "x".repeat(1000)
    );
    let deep = format!("<ListBucketResult>{}", "<a>".repeat(1 << 20));
    for (says, body) in [("unrecognized entity", bomb), ("not the expected XML", deep)] {
        let servers = Arc::new(Servers::default());
        let store = serve(&servers, "s3", Arc::new(move |_| Answer::new(200, body.clone()))).await;
        let dir = tempfile::tempdir().unwrap();
        let error = refused(&servers, "s3://b/m", &[("AWS_ENDPOINT_URL", &store)], dir.path()).await;
        assert!(error.contains(says), "{says}: {error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn files_of_another_size_than_announced_are_refused() {
    longboat_tls::install_default_provider();
    let of_files = regex::Regex::new("/resolve/").unwrap();
    for sent in [0_usize, 2, 4, 3_000_000] {
        let servers = Arc::new(Servers::default());
        let content = vec![b'x'; sent];
        let list = json!([{"rfilename": "a", "size": 3, "blobId": git_blob(b"xxx")}]);
        let answer = move |request: &Request| {
            if request.path().starts_with("/api/") { model(&list) } else { Answer::new(200, content.clone()) }
        };
        let hub = serve(&servers, "hub", Arc::new(answer)).await;
        let dir = tempfile::tempdir().unwrap();
        let variables = [("HF_ENDPOINT", hub.as_str())];
        let error = refused(&servers, "hf://org/m", &variables, dir.path()).await;
        assert!(error.contains("differs from the announced size"), "{sent}: {error}");
        // Even without a length, only the announced content is accepted.
        servers.faults.lock().push(crate::Fault {
            path: Some(of_files.clone()),
            ..fault("hub", u64::MAX, Effect { no_length: true, ..Effect::default() })
        });
        let error = refused(&servers, "hf://org/m", &variables, dir.path()).await;
        assert!(
            error.contains("sent more bytes") || error.contains("the body ended after"),
            "{sent}: {error}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_that_trickles_in_is_not_waited_for() {
    longboat_tls::install_default_provider();
    let servers = Arc::new(Servers::default());
    let hub = serve(&servers, "hub", Arc::new(|_| Answer::new(404, "x".repeat(16 << 10)))).await;
    servers.faults.lock().push(fault("hub", 1, Effect { throttle: Some(50), ..Effect::default() }));
    let dir = tempfile::tempdir().unwrap();
    let variables = [("HF_ENDPOINT", hub.as_str()), ("HF_HUB_DOWNLOAD_TIMEOUT", "1")];
    let error = refused(&servers, "hf://org/m", &variables, dir.path()).await;
    assert!(error.contains("not found"), "{error}");
    assert!(servers.sent.load(Relaxed) < 8 << 10, "all of it was read");
}

#[tokio::test(flavor = "multi_thread")]
async fn links_in_the_target_are_not_followed() {
    let world = HubFixture::with_model(b"weights".to_vec()).await;
    let outside = world.folder.path().join("outside");
    std::fs::create_dir(&outside).unwrap();
    std::fs::write(outside.join("config.json"), "theirs").unwrap();
    for link in ["sub", ".longboat"] {
        let to = world.folder.path().join(format!("m-{link}"));
        std::fs::create_dir(&to).unwrap();
        symlink(&outside, to.join(link)).unwrap();
        symlink(outside.join("config.json"), to.join("config.json")).unwrap();
        let error = world.fetch(&format!("m-{link}"), &[]).await.unwrap_err();
        assert!(matches!(error, FetchError::File { .. }) && error.to_string().contains("a link"), "{error}");
    }
    assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 1);
    assert_eq!(std::fs::read_to_string(outside.join("config.json")).unwrap(), "theirs");
}

#[tokio::test(flavor = "multi_thread")]
async fn redirects_that_lead_where_no_model_is_are_refused() {
    longboat_tls::install_default_provider();
    for (to, says) in [
        ("/w.bin", "more than 30 redirects"),
        ("file:///etc/passwd", "neither http:// nor https://"),
        ("http://169.254.169.254/latest/meta-data/iam/", "a link-local address"),
        ("http://[fe80::1]/w.bin", "a link-local address"),
    ] {
        let servers = Arc::new(Servers::default());
        let web = serve(&servers, "web", Arc::new(move |_| Answer::new(302, "").with("Location", to))).await;
        let dir = tempfile::tempdir().unwrap();
        let error = refused(&servers, &format!("{web}/w.bin"), &[], dir.path()).await;
        assert!(error.contains(says), "{to}: {error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redirect_brings_no_credentials_of_its_own() {
    longboat_tls::install_default_provider();
    let servers = Arc::new(Servers::default());
    let content = Arc::new(b"weights".to_vec());
    let other = serve(&servers, "other", Arc::new(move |_| Answer::file(&content))).await;
    let to = format!("{}/w.bin", other.replacen("://", "://user:secret@", 1));
    let web = serve(&servers, "web", Arc::new(move |_| Answer::new(302, "").with("Location", &to))).await;
    let dir = tempfile::tempdir().unwrap();
    fetch(&[format!("{web}/w.bin"), dir.path().display().to_string()], vec![]).await.unwrap();
    let log = servers.log.lock();
    let mut at_other = log.iter().filter(|request| request.server == "other").peekable();
    assert!(at_other.peek().is_some(), "the redirect was followed");
    assert!(at_other.all(|request| request.header("authorization").is_none()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_clock_is_named() {
    longboat_tls::install_default_provider();
    let servers = Arc::new(Servers::default());
    let body = "<Error><Code>RequestTimeTooSkewed</Code></Error>";
    let store = serve(&servers, "s3", Arc::new(move |_| Answer::new(403, body))).await;
    let dir = tempfile::tempdir().unwrap();
    let error = refused(&servers, "s3://b/m", &[("AWS_ENDPOINT_URL", &store)], dir.path()).await;
    assert!(error.contains("the clock of this machine"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_sends_more_than_the_missing_part_is_not_read_to_the_end() {
    const SIZE: usize = 80 << 20;
    let large = recipe("large", SIZE);
    let world = HubFixture::with_model(large.clone()).await;
    let of_first_part = |effect| crate::Fault {
        range: Some(regex::Regex::new("^bytes=0-").unwrap()),
        ..fault("cdn", u64::MAX, effect)
    };
    world.servers.faults.lock().push(of_first_part(Effect { status: Some(503), ..Effect::default() }));
    world.fetch("m", &[("LONGBOAT_FETCH_PATIENCE", "5")]).await.unwrap_err();

    // Only the first part is missing now. The pace keeps the buffers of the socket from taking the rest.
    let effect = Effect { ignore_range: true, throttle: Some(100 << 20), ..Effect::default() };
    *world.servers.faults.lock() = vec![of_first_part(effect)];
    let before = world.servers.sent.load(Relaxed);
    world.fetch("m", &[]).await.unwrap();
    assert!(world.read("m/sub/w.safetensors") == large);
    let sent = world.servers.sent.load(Relaxed) - before;
    assert!(sent < SIZE as u64 / 2, "{sent} bytes were sent");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_of_unknown_length_must_have_the_digest_that_its_server_announced() {
    longboat_tls::install_default_provider();
    let servers = Arc::new(Servers::default());
    // The digest of nothing.
    let announced = "sha-256=:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=:";
    let web = move |_: &Request| Answer::new(200, vec![7; 16 << 20]).with("Repr-Digest", announced);
    let host = serve(&servers, "web", Arc::new(web)).await;
    servers.faults.lock().push(fault("web", u64::MAX, Effect { no_length: true, ..Effect::default() }));
    let dir = tempfile::tempdir().unwrap();
    let error = refused(&servers, &format!("{host}/w.bin"), &[], dir.path()).await;
    assert!(error.contains("its digest is sha256:"), "{error}");
}

/// Without an ETag, a body that breaks off is fetched again from its start. The earlier attempts must not fill the volume.
#[tokio::test(flavor = "multi_thread")]
async fn attempts_that_start_over_leave_nothing_behind() {
    longboat_tls::install_default_provider();
    let servers = Arc::new(Servers::default());
    let content = Arc::new(vec![7; 3 << 20]);
    let web = serve(&servers, "web", Arc::new(move |_| Answer::file(&content))).await;
    servers.faults.lock().push(fault(
        "web",
        u64::MAX,
        Effect { close_after: Some(2 << 20), ..Effect::default() },
    ));
    let dir = tempfile::tempdir().unwrap();
    let error = refused(&servers, &format!("{web}/w.bin"), &[], dir.path()).await;
    assert!(error.contains("the server sends no ETag"), "{error}");
    let left = std::fs::read_dir(dir.path().join(".longboat")).unwrap();
    let left: Vec<_> = left.map(|entry| entry.unwrap().file_name()).collect();
    assert!(!left.iter().any(|name| name.to_string_lossy().ends_with(".part")), "{left:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_tls_is_said_to_have_none() {
    longboat_tls::install_default_provider();
    let servers = Arc::new(Servers::default());
    // A plain server answers to the start of TLS with an error in HTTP.
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let plain = format!("https://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        use tokio::io::AsyncWriteExt as _;
        while let Ok((mut stream, _)) = listener.accept().await {
            let _ = stream.write_all(b"HTTP/1.0 400 Bad Request\r\n\r\n").await;
        }
    });
    let dir = tempfile::tempdir().unwrap();
    let error = refused(&servers, &format!("{plain}/w.bin"), &[], dir.path()).await;
    assert!(error.contains("does not speak TLS on this port"), "{error}");
}
