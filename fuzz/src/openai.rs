//! Fuzz target of the OpenAI API. The test that replays the stored corpus shares this file.

use std::sync::{Arc, LazyLock};

use futures::StreamExt;
use longboat_serving::{Event, Model, Shape, job_of};
use longboat_sim::{Args, Simulator};

/// A text model, and a model that also accepts images, audio and video.
static MODELS: LazyLock<[Arc<Simulator>; 2]> = LazyLock::new(|| {
    [&[][..], &["--modalities", "image,audio,video", "--limit-mm-per-prompt", r#"{"audio": 1}"#]].map(
        |more| {
            let mut words = vec!["model", "--max-model-len", "4096", "--kv-cache-size", "100000"];
            words.extend(more);
            let args = Args::simulator(&words).expect("the arguments are right");
            Arc::new(Simulator::new(args))
        },
    )
});

/// The first line is a path, and the rest is a body. The request must be refused with a message, or answered within its limits.
/// A requested JSON answer must be valid JSON, unless its limit cut it off.
pub(crate) fn openai_body(data: &[u8]) {
    let Some(end) = data.iter().position(|byte| *byte == b'\n') else { return };
    let Ok(path) = std::str::from_utf8(&data[..end]) else { return };
    MODELS.iter().for_each(|model| ask(model, path, &data[end + 1..]));
}

fn ask(model: &Arc<Simulator>, path: &str, body: &[u8]) {
    let model = Arc::clone(model);
    let job = match job_of(&(model.clone() as Arc<dyn Model>), path, body) {
        Ok(job) => job,
        Err(refusal) => return assert!(!refusal.message().is_empty()),
    };
    let is_json =
        matches!(job.shape, Some(Shape::Json(_) | Shape::JsonObject)) && job.sampling.stops.is_empty();
    let limits: Vec<usize> = job.prompts.iter().map(|prompt| prompt.limit).collect();
    let copies = job.copies;
    futures::executor::block_on(async {
        let mut started = match model.start(job).await {
            Ok(started) => started,
            Err(refusal) => return assert!(!refusal.message().is_empty()),
        };
        let mut texts = vec![String::new(); limits.len() * copies];
        let mut counts = vec![0; texts.len()];
        while let Some(event) = started.events.next().await {
            match event {
                Event::Text { choice, token } => {
                    texts[choice] += &token.text;
                    counts[choice] += 1;
                }
                Event::Arguments { choice, .. } => counts[choice] += 1,
                Event::Call { .. } => {}
                Event::Finished { choice, reason, .. } => {
                    assert!(counts[choice] <= limits[choice / copies]);
                    let is_whole = is_json && reason == "stop" && !texts[choice].is_empty();
                    if is_whole {
                        serde_json::from_str::<serde_json::Value>(&texts[choice])
                            .expect("the answer is JSON");
                    }
                }
            }
        }
    });
}
