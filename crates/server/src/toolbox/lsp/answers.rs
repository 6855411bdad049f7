//! What language servers answer, in Daytona's shape. Each server has its own habits; what has no meaning is left out.

use holm_daytona_wire::lsp::{CompletionItem, CompletionList, LspLocation, LspSymbol};
use serde_json::{Value, json};

/// Symbols of one answer.
const SYMBOLS_MAX: usize = 100_000;

/// A list, a bare array of items, or nothing.
pub(super) fn completions(answer: Value) -> CompletionList {
    let (is_incomplete, items) = match answer {
        Value::Array(items) => (false, items),
        Value::Object(mut list) => {
            let is_incomplete = list.get("isIncomplete").and_then(Value::as_bool);
            let items = match list.remove("items") {
                Some(Value::Array(items)) => items,
                Some(_) | None => Vec::new(),
            };
            (is_incomplete.unwrap_or(false), items)
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => (false, Vec::new()),
    };
    CompletionList {
        is_incomplete,
        items: items.into_iter().filter_map(completion).collect(),
    }
}

fn completion(item: Value) -> Option<CompletionItem> {
    let mut item: CompletionItem = serde_json::from_value(item).ok()?;
    // Clients want an object here; servers may give a text.
    if let Some(Value::String(text)) = &item.documentation {
        item.documentation = Some(json!({ "kind": "plaintext", "value": text }));
    }
    Some(item)
}

/// Symbols, as a flat list with places or as a tree with ranges of one document.
pub(super) fn symbols(answer: &Value, document: &str) -> Vec<LspSymbol> {
    let mut found = Vec::new();
    let mut pending: Vec<&Value> = answer.as_array().into_iter().flatten().rev().collect();
    while let Some(symbol) = pending.pop() {
        if found.len() >= SYMBOLS_MAX {
            break;
        }
        if let Some(children) = symbol["children"].as_array() {
            pending.extend(children.iter().rev());
        }
        let range = |range: &Value| serde_json::from_value(range.clone()).ok();
        let location = serde_json::from_value(symbol["location"].clone());
        let location = location.ok().or_else(|| {
            let range = range(&symbol["selectionRange"]).or_else(|| range(&symbol["range"]))?;
            Some(LspLocation {
                uri: document.to_owned(),
                range,
            })
        });
        if let (Some(name), Some(location)) = (symbol["name"].as_str(), location) {
            let kind = symbol["kind"]
                .as_u64()
                .and_then(|kind| kind.try_into().ok());
            found.push(LspSymbol {
                name: name.to_owned(),
                kind: kind.unwrap_or(0),
                location,
            });
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn completions_come_in_three_shapes() {
        let items = json!([{ "label": "a", "kind": 3, "documentation": "text" }, 5, { "label": "b", "documentation": { "value": "x" } }]);
        for answer in [
            items.clone(),
            json!({ "isIncomplete": false, "items": items }),
        ] {
            let list = completions(answer);
            assert_eq!(list.items.len(), 2);
            assert_eq!(
                list.items[0].documentation.as_ref().unwrap()["value"],
                "text"
            );
        }
        assert!(completions(json!({ "isIncomplete": true, "items": [] })).is_incomplete);
        assert_eq!(completions(Value::Null), CompletionList::default());
    }

    #[test]
    fn symbols_come_flat_and_as_a_tree() {
        let range =
            json!({ "start": { "line": 1, "character": 0 }, "end": { "line": 2, "character": 0 } });
        let flat = json!([{ "name": "f", "kind": 12, "location": { "uri": "file:///a", "range": range } }, {}]);
        let found = symbols(&flat, "");
        assert_eq!(
            (found.len(), found[0].location.uri.as_str()),
            (1, "file:///a")
        );
        let tree = json!([{ "name": "C", "kind": 5, "range": range, "selectionRange": range, "children": [
            { "name": "m", "kind": 6, "range": range, "selectionRange": range },
        ] }, { "name": "g", "kind": 12, "range": range }]);
        let names: Vec<_> = symbols(&tree, "file:///b")
            .into_iter()
            .map(|symbol| symbol.name)
            .collect();
        assert_eq!(names, ["C", "m", "g"]);
        assert_eq!(symbols(&Value::Null, ""), []);
    }
}
