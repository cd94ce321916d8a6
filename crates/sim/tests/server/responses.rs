//! The API of responses.

use serde_json::{Value, json};

use crate::{Server, is_weather, weather};

#[tokio::test]
async fn responses_accept_the_extra_fields_of_vllm() {
    let server = Server::start(&[]).await;
    let body = json!({"input": "Hello", "structured_outputs": {"choice": ["yes"]}, "seed": 1, "top_k": 2});
    let (status, answer) = server.post("/v1/responses", &body).await;
    assert_eq!((status, &answer["output"][0]["content"][0]["text"]), (200, &json!("yes")), "{answer}");
    let body = json!({"input": "Hello", "stop": ["e"], "text": {"format": {"type": "json_object"}},
        "structured_outputs": {"choice": ["yes"]}});
    let (status, answer) = server.post("/v1/responses", &body).await;
    assert!(
        status == 400 && answer["error"]["message"].as_str().unwrap().contains("only use one kind"),
        "{answer}"
    );
    let call = json!({"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"});
    let output = json!({"type": "function_call_output", "call_id": "c", "output": "x"});
    let said = json!({"role": "user", "content": "x"});
    for (item, field) in
        [(&call, "call_id"), (&call, "name"), (&call, "arguments"), (&output, "output"), (&said, "content")]
    {
        let mut item = item.clone();
        item[field] = Value::Null;
        let (status, answer) = server.post("/v1/responses", &json!({"input": [item]})).await;
        assert_eq!((status, &answer["error"]["param"]), (400, &json!("body.input")), "{answer}");
    }
    for (name, value) in
        [("cache_salt", json!("x")), ("max_tool_calls", json!(1)), ("logit_bias", json!({"1": 1}))]
    {
        let (status, answer) = server.post("/v1/responses", &json!({"input": "Hello", name: value})).await;
        assert_eq!((status, &answer["error"]["param"]), (400, &json!(name)), "{answer}");
    }
}

#[tokio::test]
async fn responses_are_returned_complete_and_as_events() {
    let server = Server::start(&[]).await;
    let (status, whole) = server.post("/v1/responses", &json!({"input": "Hello", "temperature": 0})).await;
    assert_eq!((status, &whole["status"]), (200, &json!("completed")), "{whole}");
    let text = whole["output"][0]["content"][0]["text"].as_str().unwrap();
    assert!(!text.is_empty());
    assert_eq!(
        whole["usage"]["total_tokens"].as_u64(),
        Some(
            whole["usage"]["input_tokens"].as_u64().unwrap()
                + whole["usage"]["output_tokens"].as_u64().unwrap()
        )
    );

    let body = json!({"input": "Hello", "temperature": 0, "stream": true});
    let sent = server.client.post(server.url("/v1/responses")).json(&body).send().await.unwrap();
    let events: Vec<Value> = sent
        .text()
        .await
        .unwrap()
        .split("\n\n")
        .filter(|frame| !frame.is_empty())
        .map(|frame| {
            let (name, data) = frame.split_once('\n').unwrap();
            let data: Value = serde_json::from_str(data.strip_prefix("data: ").unwrap()).unwrap();
            assert_eq!(Some(name.strip_prefix("event: ").unwrap()), data["type"].as_str());
            data
        })
        .collect();
    let numbers: Vec<_> = events.iter().map(|event| event["sequence_number"].as_u64().unwrap()).collect();
    assert_eq!(numbers, (0..events.len() as u64).collect::<Vec<_>>());
    let deltas = events.iter().filter(|event| event["type"] == "response.output_text.delta");
    let streamed: String = deltas.map(|event| event["delta"].as_str().unwrap()).collect();
    assert_eq!(streamed, text);
    let last = events.last().unwrap();
    assert_eq!(last["type"], "response.completed");
    assert_eq!(last["response"]["output"][0]["content"][0]["text"], text);

    let tool =
        json!({"type": "function", "name": "weather", "parameters": weather()["function"]["parameters"]});
    let body = json!({"input": "Hello", "tools": [tool], "tool_choice": "required"});
    let (_, called) = server.post("/v1/responses", &body).await;
    assert_eq!(called["output"][0]["type"], "function_call", "{called}");
    assert!(is_weather(called["output"][0]["arguments"].as_str().unwrap()));
    let cut = server.post("/v1/responses", &json!({"input": "Hello", "max_output_tokens": 2})).await.1;
    assert_eq!(cut["incomplete_details"]["reason"], "max_output_tokens", "{cut}");
    for (body, status) in [
        (json!({"input": "x", "previous_response_id": "resp_1"}), 404),
        (json!({"input": []}), 400),
        (json!({"input": [{"type": "computer_call"}]}), 400),
        (json!({"input": "x", "background": true}), 400),
    ] {
        assert_eq!(server.post("/v1/responses", &body).await.0, status, "{body}");
    }
}
