//! Calls of tools, and answers in a requested form.

use serde_json::{Value, json};

use crate::{Server, is_weather, weather, with};

#[tokio::test]
async fn tools_are_called_as_tool_choice_says_streamed_and_not() {
    let server = Server::start(&[]).await;
    let weather_only = json!({"type": "function", "function": {"name": "weather"}});
    for (choice, reason) in
        [(json!("required"), "tool_calls"), (json!("auto"), "tool_calls"), (weather_only, "stop")]
    {
        let mut request = with(&json!({"tools": [weather()], "tool_choice": choice}));
        let (status, answer) = server.post("/v1/chat/completions", &request).await;
        assert_eq!(status, 200, "{answer}");
        let call = &answer["choices"][0]["message"]["tool_calls"][0];
        assert_eq!((&call["type"], &call["function"]["name"]), (&json!("function"), &json!("weather")));
        assert!(is_weather(call["function"]["arguments"].as_str().unwrap()), "{call}");
        assert_eq!(answer["choices"][0]["finish_reason"], reason);

        request["stream"] = json!(true);
        let chunks = server.events("/v1/chat/completions", &request).await;
        let calls = chunks.iter().filter_map(|chunk| chunk["choices"][0]["delta"]["tool_calls"].get(0));
        let (mut name, mut id, mut arguments) = (String::new(), 0, String::new());
        for call in calls {
            name += call["function"]["name"].as_str().unwrap_or_default();
            id += usize::from(call["id"].is_string());
            arguments += call["function"]["arguments"].as_str().unwrap_or_default();
            assert_eq!(call["index"], 0);
        }
        assert_eq!((name.as_str(), id), ("weather", 1));
        assert_eq!(Some(arguments.as_str()), call["function"]["arguments"].as_str());
        assert_eq!(chunks.last().unwrap()["choices"][0]["finish_reason"], reason);
    }
    let (_, answer) = server
        .post("/v1/chat/completions", &with(&json!({"tools": [weather()], "tool_choice": "none"})))
        .await;
    assert!(answer["choices"][0]["message"]["content"].is_string(), "{answer}");
}

#[tokio::test]
async fn arguments_are_an_object_whatever_the_parameters_say() {
    let server = Server::start(&[]).await;
    let alternatives = json!({"anyOf": [{"properties": {"a": {"type": "integer"}}, "required": ["a"]}, {"required": ["b"]}]});
    for parameters in [json!({}), json!({"description": "none"}), alternatives, Value::Null] {
        let tool = json!({"type": "function", "function": {"name": "now", "parameters": parameters}});
        let request = with(&json!({"tools": [tool], "tool_choice": "required"}));
        let (_, answer) = server.post("/v1/chat/completions", &request).await;
        let arguments = &answer["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"];
        let arguments: Value = serde_json::from_str(arguments.as_str().unwrap()).unwrap();
        assert!(arguments.is_object(), "{parameters}: {arguments}");
    }
}

#[tokio::test]
async fn after_the_result_of_a_tool_the_answer_is_words() {
    let server = Server::start(&[]).await;
    let call = json!({"id": "x", "type": "function", "function": {"name": "weather", "arguments": "{}"}});
    let request = with(&json!({"tools": [weather()], "messages": [
        {"role": "user", "content": "How is it?"},
        {"role": "assistant", "content": null, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "x", "content": "sunny"}]}));
    let (_, answer) = server.post("/v1/chat/completions", &request).await;
    assert_eq!(answer["choices"][0]["finish_reason"], "stop", "{answer}");
    assert!(!answer["choices"][0]["message"]["content"].as_str().unwrap().is_empty());
}

#[tokio::test]
async fn answers_have_the_requested_form() {
    let server = Server::start(&[]).await;
    let schema = weather()["function"]["parameters"].clone();
    let content = async |fields: Value| {
        let (status, answer) = server.post("/v1/chat/completions", &with(&fields)).await;
        assert_eq!(status, 200, "{answer}");
        answer["choices"][0]["message"]["content"].as_str().unwrap().to_owned()
    };
    let format = json!({"type": "json_schema", "json_schema": {"name": "x", "schema": schema}});
    assert!(is_weather(&content(json!({"response_format": format})).await));
    assert!(is_weather(&content(json!({"guided_json": schema})).await));
    assert!(is_weather(&content(json!({"structured_outputs": {"json": schema.to_string()}})).await));
    let object = content(json!({"response_format": {"type": "json_object"}})).await;
    assert!(serde_json::from_str::<Value>(&object).unwrap().is_object());
    for fields in
        [json!({"guided_choice": ["yes", "no"]}), json!({"structured_outputs": {"choice": ["yes", "no"]}})]
    {
        assert!(["yes", "no"].contains(&content(fields).await.as_str()));
    }
    let number = content(json!({"structured_outputs": {"regex": "[0-9]{4}"}})).await;
    assert!(number.len() == 4 && number.parse::<u32>().is_ok(), "{number}");
}
