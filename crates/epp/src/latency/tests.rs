//! Tests against an HTTP server that accepts and returns the JSON of the published prediction and training servers.

use std::{collections::BTreeMap, convert::Infallible, time::Duration};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::*;
use crate::{companion, tests::support};

/// The requests that a server received, by path.
type ReceivedRequests = Arc<Mutex<Vec<(String, Value)>>>;

/// How a server behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Behaviour {
    /// Answers 100 ms until the first token for each waiting request, and 10 ms for each further token.
    Answers,
    /// Has no model yet.
    Untrained,
    /// Never answers.
    Hangs,
    /// Predicts for one row less than the request has.
    Short,
    /// It predicts times below 0.
    Negative,
}

/// The fields that servers require, each with its maximum. The minimum of all is 0.
const REQUIRED: [(&str, f64); 6] = [
    ("kv_cache_percentage", 1.0),
    ("input_token_length", f64::MAX),
    ("num_request_waiting", f64::MAX),
    ("num_request_running", f64::MAX),
    ("num_tokens_generated", f64::MAX),
    ("prefix_cache_score", 1.0),
];

fn refuse(rows: &[Value], more: &[&str]) -> Option<String> {
    let all = REQUIRED.iter().copied().chain(more.iter().map(|name| (*name, f64::MAX)));
    let all: Vec<_> = all.collect();
    rows.iter().find_map(|row| {
        all.iter().find_map(|(name, most)| {
            let number = row[*name].as_f64();
            let fits = number.is_some_and(|number| (0.0..=*most).contains(&number));
            (!fits).then(|| format!("{name}: {}", row[*name]))
        })
    })
}

fn answer(behaviour: Behaviour, path: &str, body: &Value) -> (u16, Value) {
    let list = |name: &str| body[name].as_array().cloned().unwrap_or_default();
    match (path, behaviour) {
        ("/add_training_data_bulk", _) => {
            match refuse(&list("entries"), &["actual_ttft_ms", "actual_tpot_ms"]) {
                Some(wrong) => (422, json!({"detail": wrong})),
                None => (202, json!({"message": "Accepted"})),
            }
        }
        ("/predict/bulk/strict", Behaviour::Untrained) => (503, json!({"detail": "Models not ready"})),
        ("/predict/bulk/strict", _) => {
            let mut rows = list("requests");
            if let Some(wrong) = refuse(&rows, &[]) {
                return (422, json!({"detail": wrong}));
            }
            if behaviour == Behaviour::Short {
                rows.pop();
            }
            let sign = if behaviour == Behaviour::Negative { -1.0 } else { 1.0 };
            let predictions: Vec<_> = rows
                .iter()
                .map(|row| {
                    json!({
                        "ttft_ms": sign * 100.0 * row["num_request_waiting"].as_f64().unwrap(),
                        "tpot_ms": sign * 10.0,
                        "predicted_at": "2026-01-01T00:00:00Z",
                        "model_type": "bayesian_ridge",
                        "objective_type": "quantile",
                        "quantile": 0.9,
                        "last_model_load": null,
                    })
                })
                .collect();
            let count = predictions.len();
            let answer = json!({
                "predictions": predictions,
                "total_requests": count,
                "successful_predictions": count,
                "failed_predictions": 0,
                "processing_time_ms": 1.5,
            });
            (200, answer)
        }
        _ => (404, json!({"detail": "Not Found"})),
    }
}

/// Starts a server with this behaviour. Returns its address and the requests that it receives.
pub(crate) async fn server(behaviour: Behaviour) -> (String, ReceivedRequests) {
    longboat_tls::install_default_provider();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let asked = ReceivedRequests::default();
    let seen = Arc::clone(&asked);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let seen = Arc::clone(&seen);
            tokio::spawn(async move {
                let service = service_fn(|request: Request<hyper::body::Incoming>| {
                    let seen = Arc::clone(&seen);
                    async move {
                        let path = request.uri().path().to_owned();
                        let body = request.into_body().collect().await.unwrap().to_bytes();
                        let body: Value = serde_json::from_slice(&body).unwrap();
                        seen.lock().push((path.clone(), body.clone()));
                        if behaviour == Behaviour::Hangs && path != "/add_training_data_bulk" {
                            std::future::pending::<()>().await;
                        }
                        let (status, body) = answer(behaviour, &path, &body);
                        let body = Full::new(Bytes::from(body.to_string()));
                        Ok::<_, Infallible>(Response::builder().status(status).body(body).unwrap())
                    }
                });
                let connection = hyper::server::conn::http1::Builder::new();
                let _ = connection.serve_connection(TokioIo::new(stream), service).await;
            });
        }
    });
    (url, asked)
}

/// Starts a predictor with these servers.
pub(crate) fn predictor(predict: &str, train: &str, more: &[(&str, &str)]) -> Arc<Predictor> {
    let more: BTreeMap<String, String> = [("PREDICTION_SERVER_URL", predict), ("TRAINING_SERVER_URL", train)]
        .iter()
        .chain(more)
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect();
    let settings = LatencyServers::read(|name| more.get(name).cloned()).unwrap();
    let predictor = Predictor::new(settings, "ns", support::core("").metrics.latency.clone());
    tokio::spawn(Arc::clone(&predictor).run(CancellationToken::new()));
    predictor
}

fn rows(waiting: &[u64]) -> Vec<Features> {
    waiting.iter().map(|&waiting| Features { waiting, ..Features::default() }).collect()
}

fn times(predictions: &[Prediction]) -> Vec<f64> {
    predictions.iter().map(|prediction| prediction.ttft_ms).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_that_ask_together_are_sent_together_and_each_gets_its_own() {
    let (url, asked) = server(Behaviour::Answers).await;
    let predictor = predictor(&url, &url, &[("LATENCY_COALESCE_WINDOW_MS", "100")]);
    let (first, second) = tokio::join!(predictor.predict(rows(&[1, 2])), predictor.predict(rows(&[3])));
    assert_eq!(times(&first.unwrap()), [100.0, 200.0]);
    assert_eq!(times(&second.unwrap()), [300.0]);
    let asked = asked.lock().clone();
    assert_eq!(asked.len(), 1, "{asked:?}");
    let row = json!({
        "kv_cache_percentage": 0.0, "input_token_length": 0, "num_request_waiting": 1, "num_request_running": 0,
        "num_tokens_generated": 1, "prefix_cache_score": 0.0, "encoder_input_size": 0, "encoder_matched_size": 0,
        "prefill_tokens_in_flight": 0, "decode_tokens_in_flight": 0,
    });
    assert_eq!(asked[0].1["requests"][0], row);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_about_many_endpoints_is_sent_in_parts() {
    let (url, asked) = server(Behaviour::Answers).await;
    let limits = [("LATENCY_MAX_BULK_SIZE", "2"), ("LATENCY_MAX_COALESCED_ROWS", "3")];
    let predictor = predictor(&url, &url, &limits);
    let all = predictor.predict(rows(&[1, 2, 3, 4, 5])).await.unwrap();
    assert_eq!(times(&all), [100.0, 200.0, 300.0, 400.0, 500.0]);
    let sizes: Vec<_> =
        asked.lock().iter().map(|(_, body)| body["requests"].as_array().unwrap().len()).collect();
    assert!(sizes.iter().sum::<usize>() == 5 && sizes.iter().all(|size| *size <= 3), "{sizes:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_away_is_left_alone_and_another_is_asked() {
    for behaviour in [Behaviour::Hangs, Behaviour::Untrained, Behaviour::Short, Behaviour::Negative] {
        let (url, asked) = server(behaviour).await;
        let alone = predictor(&url, &url, &[]);
        for _ in 0..companion::FAILURES {
            assert!(alone.predict(rows(&[1])).await.is_err(), "{behaviour:?}");
        }
        // The last call ends a moment after the requests that waited for it.
        while alone.may_send() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        assert!(matches!(alone.predict(rows(&[1])).await, Err(PredictError::Busy)));
        assert_eq!(asked.lock().len(), companion::FAILURES as usize, "{behaviour:?}");
    }
    let (well, _) = server(Behaviour::Answers).await;
    let predictor = predictor(&format!("http://127.0.0.1:1, {well}"), &well, &[]);
    let mut answered = 0;
    while predictor.servers.predictions[0].1.failures() < companion::FAILURES {
        answered += usize::from(predictor.predict(rows(&[1])).await.is_ok());
    }
    for _ in 0..20 {
        assert!(predictor.predict(rows(&[1])).await.is_ok(), "after {answered} answers");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn lessons_reach_the_training_server_and_too_many_are_drawn_from() {
    let (url, asked) = server(Behaviour::Answers).await;
    let predictor = predictor(&url, &url, &[("LATENCY_MAX_SAMPLE_SIZE", "10")]);
    let features = Features {
        kv_usage: 0.5,
        input_tokens: 7,
        role: "decode".to_owned(),
        encoder_items: 3,
        encoder_matched: 1,
        ..Features::default()
    };
    for index in 0..100 {
        let sample = TrainingSample {
            features: features.clone(),
            ttft_ms: f64::from(index),
            tpot_ms: 0.0,
            at: jiff::Timestamp::UNIX_EPOCH,
        };
        predictor.learn(sample);
    }
    let entries = loop {
        tokio::time::sleep(Duration::from_millis(10)).await;
        let asked = asked.lock().clone();
        let all: Vec<Value> = asked
            .iter()
            .flat_map(|(_, body)| body["entries"].as_array().cloned().unwrap_or_default())
            .collect();
        if !all.is_empty() {
            break all;
        }
    };
    assert_eq!(entries.len(), 10);
    assert!(
        entries.iter().any(|entry| entry["actual_ttft_ms"].as_f64().unwrap() >= 10.0),
        "not only the first"
    );
    let mut entry = entries[0].clone();
    entry["actual_ttft_ms"] = json!(0);
    let expected = json!({
        "kv_cache_percentage": 0.5, "input_token_length": 7, "num_request_waiting": 0, "num_request_running": 0,
        "num_tokens_generated": 0, "prefix_cache_score": 0.0, "encoder_input_size": 3, "encoder_matched_size": 1,
        "pod_type": "decode", "prefill_tokens_in_flight": 0, "decode_tokens_in_flight": 0,
        "actual_ttft_ms": 0, "actual_tpot_ms": 0.0, "timestamp": "1970-01-01T00:00:00Z",
    });
    assert_eq!(entry, expected);
}

#[test]
fn variables_that_cannot_be_used_are_named() {
    let read = |name: &'static str, value: &'static str| {
        LatencyServers::read(|asked| (asked == name).then(|| value.to_owned()))
    };
    for (name, value) in [
        ("PREDICTION_SERVER_URL", "http://a, localhost:8001"),
        ("TRAINING_SERVER_URL", "ftp://x"),
        ("LATENCY_MAX_BULK_SIZE", "101"),
        ("LATENCY_MAX_CONCURRENT_DISPATCHES", "0"),
        ("LATENCY_COALESCE_WINDOW_MS", "soon"),
    ] {
        let error = read(name, value).unwrap_err().to_string();
        assert!(error.contains(name) && error.contains("expected"), "{error}");
    }
    let usual = read("LATENCY_MAX_SAMPLE_SIZE", "").unwrap();
    assert_eq!((usual.training.as_str(), usual.max_samples), ("http://localhost:8000", 1000));
    assert_eq!(
        read("PREDICTION_SERVER_URL", "http://a:1, http://b:2/,").unwrap().predictions,
        ["http://a:1", "http://b:2"]
    );
}
