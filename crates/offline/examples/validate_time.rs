//! How long it takes to read and validate a thousand objects; the table of benches/README.md has the row.
#![expect(clippy::print_stdout, reason = "the output of a measurement")]

use std::time::Instant;

use longboat_manifest::parse_all;
use longboat_offline::{Surroundings, validate::validate};

const OBJECTS: usize = 1000;

fn main() {
    let text: String = (0..OBJECTS).map(service).collect();
    for _ in 0..5 {
        let start = Instant::now();
        let reading = parse_all("many.yaml", &text);
        let read = start.elapsed();
        let report = validate(reading, &Surroundings::default());
        let whole = start.elapsed();
        println!(
            "{} objects, {} findings: {:.0} ms, of which {:.0} ms reading",
            report.checked.len(),
            report.findings.len(),
            whole.as_secs_f64() * 1e3,
            read.as_secs_f64() * 1e3
        );
    }
}

fn service(number: usize) -> String {
    format!(
        "---
apiVersion: serving.kserve.io/v1alpha2
kind: LLMInferenceService
metadata:
  name: service-{number}
  namespace: team-{}
  labels: {{app: chat, tier: gold}}
spec:
  model:
    uri: hf://org/model-{number}
    name: org/model-{number}
  replicas: 3
  router:
    route: {{}}
    gateway: {{}}
    scheduler: {{}}
  template:
    containers:
    - name: main
      image: registry.example/vllm:v1
      args: [--max-model-len, \"8192\", --enable-prefix-caching]
      env:
      - name: HF_HOME
        value: /cache
      resources:
        requests: {{cpu: \"4\", memory: 32Gi}}
        limits: {{memory: 32Gi, nvidia.com/gpu: \"1\"}}
",
        number % 10
    )
}
