use std::{
    pin::pin,
    task::{Context, Wake, Waker},
};

use super::*;

fn engine(arguments: &[&str]) -> Arc<Engine> {
    let mut all = vec!["model"];
    all.extend(arguments);
    Arc::new(Engine::new(Args::simulator(&all).unwrap()))
}

#[tokio::test(start_paused = true)]
async fn a_cached_prefix_shortens_the_first_token() {
    let engine = engine(&["--prefill-time-per-token", "1ms", "--time-to-first-token", "10ms"]);
    let prompt: Vec<u32> = (0..160).collect();
    for expected in [170, 11] {
        let before = Instant::now();
        let running = engine.admit(&prompt, 1, Caches::default()).await.unwrap();
        running.prefill().await;
        assert_eq!(before.elapsed().as_millis(), expected);
    }
}

#[tokio::test(start_paused = true)]
async fn a_slow_client_does_not_slow_the_engine_down() {
    let engine = engine(&["--inter-token-latency", "10ms", "--time-to-first-token", "10ms"]);
    let running = engine.admit(&[1], 11, Caches::default()).await.unwrap();
    let before = Instant::now();
    running.prefill().await;
    for _ in 0..10 {
        tokio::time::sleep(Duration::from_millis(4)).await;
        running.decode().await;
    }
    assert_eq!(before.elapsed().as_millis(), 110);
}

#[tokio::test(start_paused = true)]
async fn prompts_in_chunks_wait_for_each_other_and_hold_answers_up() {
    let flags = ["--prefill-time-per-token", "1ms", "--inter-token-latency", "10ms"];
    let engine = engine(&[&flags[..], &["--max-num-batched-tokens", "41"]].concat());
    let first: Vec<u32> = (0..80).collect();
    let second: Vec<u32> = (1000..1080).collect();
    let answering = engine.admit(&first, 5, Caches::default()).await.unwrap();
    let prefilling = engine.admit(&second, 1, Caches::default()).await.unwrap();
    let before = Instant::now();
    let answer = async {
        answering.prefill().await;
        let first = before.elapsed().as_millis();
        for _ in 0..4 {
            answering.decode().await;
        }
        drop(answering);
        (first, before.elapsed().as_millis())
    };
    let prompt = async {
        prefilling.prefill().await;
        let first = before.elapsed().as_millis();
        drop(prefilling);
        first
    };
    // As the engine model computes it: each step has a token of the answer and 40 of the second prompt.
    assert_eq!(tokio::join!(answer, prompt), ((80, 200), 180));
}

#[tokio::test(start_paused = true)]
async fn a_cache_from_elsewhere_comes_token_by_token() {
    let latency = ["--kv-cache-transfer-latency", "10ms", "--kv-cache-transfer-time-per-token", "1ms"];
    let running = engine(&latency).admit(&[7; 160], 1, Caches::default()).await.unwrap();
    let before = Instant::now();
    running.receive().await;
    assert_eq!(before.elapsed().as_millis(), 170);
}

#[tokio::test(start_paused = true)]
async fn requests_beyond_the_batch_wait_and_beyond_the_queue_are_refused() {
    let engine = engine(&["--max-num-seqs", "1", "--max-waiting-queue-length", "1"]);
    let first = engine.admit(&[1], 1, Caches::default()).await.unwrap();
    let second = tokio::spawn({
        let engine = engine.clone();
        async move { engine.admit(&[2], 1, Caches::default()).await.map(drop) }
    });
    tokio::task::yield_now().await;
    assert!(engine.page().contains("vllm:num_requests_waiting{model_name=\"model\",engine=\"0\"} 1"));
    assert_eq!(engine.admit(&[3], 1, Caches::default()).await.map(drop), Err(Refusal::queue_full()));
    drop(first);
    assert_eq!(second.await.unwrap(), Ok(()));
}

#[tokio::test(start_paused = true)]
async fn the_times_of_a_request_begin_with_its_arrival() {
    let engine =
        engine(&["--max-num-seqs", "1", "--time-to-first-token", "1s", "--inter-token-latency", "1s"]);
    let ask = async || {
        let running = engine.admit(&[1], 2, Caches::default()).await.unwrap();
        running.prefill().await;
        running.decode().await;
        running.finished("stop");
    };
    tokio::join!(ask(), ask());
    let page = engine.page();
    let sum = |name: &str| {
        let line = format!("vllm:{name}_seconds_sum{{model_name=\"model\",engine=\"0\"}} ");
        page.split_once(&line).unwrap().1.lines().next().unwrap().parse::<f64>().unwrap()
    };
    // The second request waits two seconds for the first.
    assert_eq!(sum("time_to_first_token").to_bits(), 4f64.to_bits(), "1 and 3: {page}");
    assert_eq!(sum("e2e_request_latency").to_bits(), 6f64.to_bits(), "2 and 4: {page}");
}

#[tokio::test(start_paused = true)]
async fn the_first_token_after_a_transfer_is_one() {
    let engine = engine(&["--kv-cache-transfer-latency", "1s", "--inter-token-latency", "1s"]);
    let running = engine.admit(&[1], 2, Caches { is_received: true, stored: None }).await.unwrap();
    running.receive().await;
    let page = engine.page();
    for line in [
        "time_to_first_token_seconds_sum{model_name=\"model\",engine=\"0\"} 2.0",
        "inter_token_latency_seconds_count{model_name=\"model\",engine=\"0\"} 0",
    ] {
        assert!(page.contains(line), "{page}");
    }
}

#[tokio::test]
async fn a_place_is_free_before_waiting_requests_look_again() {
    struct Look(Arc<Engine>, AtomicUsize);
    impl Wake for Look {
        fn wake(self: Arc<Self>) {
            self.1.store(self.0.free_places(), Ordering::Relaxed);
        }
    }
    let engine = engine(&["--max-num-seqs", "1", "--max-waiting-queue-length", "0"]);
    let running = engine.admit(&[1], 1, Caches::default()).await.unwrap();
    let look = Arc::new(Look(Arc::clone(&engine), AtomicUsize::new(0)));
    let mut released = pin!(engine.released());
    let waker = Waker::from(Arc::clone(&look));
    assert!(released.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    drop(running);
    assert_eq!(look.1.load(Ordering::Relaxed), 1);
}

#[tokio::test(start_paused = true)]
async fn no_request_passes_one_that_waits_for_memory() {
    let engine = engine(&["--kv-cache-size", "4", "--max-num-seqs", "4"]);
    let first = engine.admit(&[1; 48], 0, Caches::default()).await.unwrap();
    let admitted = |prompt: Vec<u32>| {
        let engine = engine.clone();
        tokio::spawn(async move { engine.admit(&prompt, 0, Caches::default()).await.unwrap() })
    };
    let (long, short) = (admitted(vec![2; 64]), admitted(vec![3; 16]));
    tokio::task::yield_now().await;
    assert!(engine.page().contains("vllm:num_requests_waiting{model_name=\"model\",engine=\"0\"} 2"));
    drop(first);
    drop(long.await.unwrap());
    drop(short.await.unwrap());
}

#[test]
fn any_size_of_the_batch_is_taken() {
    engine(&["--max-num-seqs", &usize::MAX.to_string()]);
}

#[tokio::test(start_paused = true)]
async fn an_abandoned_request_frees_its_memory() {
    let engine = engine(&["--kv-cache-size", "4"]);
    drop(engine.admit(&[0; 64], 0, Caches::default()).await.unwrap());
    assert!(engine.page().contains("vllm:kv_cache_usage_perc{model_name=\"model\",engine=\"0\"} 0.0"));
    assert!(engine.admit(&[9; 64], 0, Caches::default()).await.is_ok());
}
