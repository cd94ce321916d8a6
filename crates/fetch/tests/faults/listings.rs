//! Listings that do not end, or that name a file twice.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::Relaxed},
};

use longboat_fetch::FetchError;

use crate::{
    COMMIT, fetch, has_files,
    servers::{Answer, Request, Servers, store::Store},
};

/// Fetches from a server whose pages always have a next page, with a new token each time or always with the same one.
async fn endless(
    uri: &str,
    variable: &str,
    page: impl Fn(&Request, usize) -> Answer + Send + Sync + 'static,
) {
    longboat_tls::install_default_provider();
    let servers = Arc::new(Servers::default());
    let asked = AtomicUsize::new(0);
    let handler = move |request: &Request| page(request, asked.fetch_add(1, Relaxed));
    let address = servers.serve("list", Arc::new(handler)).await;
    let endpoint = format!("http://{address}");
    let dir = tempfile::tempdir().unwrap();
    let (home, to) = (dir.path().join("home"), dir.path().join("m"));
    let variables = [
        ("HOME", home.display().to_string()),
        (variable, endpoint.clone()),
        ("AWS_ACCESS_KEY_ID", "k".into()),
        ("AWS_SECRET_ACCESS_KEY", "s".into()),
    ];
    let variables = variables.map(|(name, value)| (name.to_owned(), value)).to_vec();
    let error = fetch(&[uri.into(), to.display().to_string()], variables).await.unwrap_err();
    assert!(matches!(error, FetchError::Answer { .. }), "{error}");
    let text = error.to_string();
    assert!(text.contains(&endpoint) && text.contains("does not end"), "{text}");
    assert!(!has_files(&to), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_of_a_bucket_that_does_not_end_is_refused() {
    for names in ["same", "other"] {
        let page = move |_: &Request, count: usize| {
            let token = if names == "same" { 0 } else { count };
            Answer::new(
                200,
                format!(
                    "<ListBucketResult><IsTruncated>true</IsTruncated>\
                     <NextContinuationToken>t{token}</NextContinuationToken></ListBucketResult>"
                ),
            )
        };
        endless("s3://b/m", "AWS_ENDPOINT_URL", page).await;
        let page = move |_: &Request, count: usize| {
            let token = if names == "same" { 0 } else { count };
            Answer::new(200, format!(r#"{{"items":[],"nextPageToken":"t{token}"}}"#))
        };
        endless("gs://b/m", "STORAGE_EMULATOR_HOST", page).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tree_of_a_model_that_does_not_end_is_refused() {
    for names in ["same", "other"] {
        let page = move |request: &Request, count: usize| {
            if request.path().contains("/revision/") {
                // The response has more files than one response may list.
                let file = r#"{"rfilename":"a"},"#.repeat(50_000);
                return Answer::new(
                    200,
                    format!(r#"{{"sha":"{COMMIT}","siblings":[{file}{{"rfilename":"b"}}]}}"#),
                );
            }
            let cursor = if names == "same" { 0 } else { count };
            let next = format!("<{}?cursor={cursor}>; rel=\"next\"", request.path());
            Answer::new(200, r#"[{"type":"directory","path":"d"}]"#).with("Link", next)
        };
        endless("hf://org/m", "HF_ENDPOINT", page).await;
    }
}

/// `m//a` and `m/a` are two objects of a bucket, but the same path in a folder.
#[tokio::test(flavor = "multi_thread")]
async fn keys_that_differ_in_slashes_only_are_refused() {
    longboat_tls::install_default_provider();
    let servers = Arc::new(Servers::default());
    let object = |key: &str, content: &str| (key.to_owned(), Arc::new(content.as_bytes().to_vec()));
    let buckets = [
        ("first", vec![object("m/l//a", "1"), object("m/l/a", "2")]),
        ("deep", vec![object("m/l/s//a", "1"), object("m/l/s/a", "2")]),
    ];
    let buckets = buckets.map(|(name, objects)| (name.to_owned(), objects.into_iter().collect()));
    let store = Store { buckets: buckets.into(), ..Store::default() };
    let address = servers.serve("s3", Arc::new(move |request| store.s3(request))).await;
    for (bucket, named) in [("first", "`m/l//a` and `m/l/a`"), ("deep", "`m/l/s//a` and `m/l/s/a`")] {
        let dir = tempfile::tempdir().unwrap();
        let variables = [
            ("AWS_ENDPOINT_URL", format!("http://{address}")),
            ("AWS_ACCESS_KEY_ID", "k".into()),
            ("AWS_SECRET_ACCESS_KEY", "s".into()),
        ];
        let variables = variables.map(|(name, value)| (name.to_owned(), value)).to_vec();
        let pairs = [format!("s3://{bucket}/m/l"), dir.path().display().to_string()];
        let error = fetch(&pairs, variables).await.unwrap_err();
        assert!(matches!(error, FetchError::Name { .. }) && error.to_string().contains(named), "{error}");
        assert!(!has_files(dir.path()), "{error}");
    }
}
