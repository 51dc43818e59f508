// Forms made of a JSON Schema. A part that has no simple field is edited as JSON.

import { h } from "./dom.js";

let fields = 0;

/**
 * Creates the fields of an object schema. Returns the element and `read()`, which returns the value
 * or throws an `Error` with the problem of a field.
 */
export function schemaForm(schema, value = {}) {
  const properties = Object.entries(schema?.properties ?? {});
  if (properties.length === 0) return jsonField("Input", value, "A JSON object.");
  const required = new Set(schema.required ?? []);
  const all = properties.map(([name, property]) => {
    const resolved = resolve(property, schema);
    return { name, isRequired: required.has(name), field: createField(name, resolved, value?.[name]) };
  });
  return {
    element: h("div", {}, all.map(({ field }) => field.element)),
    read() {
      const result = {};
      for (const { name, isRequired, field } of all) {
        const read = field.read();
        if (read === undefined && isRequired) throw new Error(`${name} is missing`);
        if (read !== undefined) result[name] = read;
      }
      return result;
    },
  };
}

function resolve(schema, root) {
  let found = schema;
  // A chain of references is short; the limit ends a circle.
  for (let steps = 0; steps < 10 && found?.$ref; steps += 1) {
    const parts = found.$ref.replace(/^#\/?/, "").split("/").filter(Boolean);
    found = parts.reduce((value, key) => value?.[key.replaceAll("~1", "/").replaceAll("~0", "~")], root);
  }
  return found ?? {};
}

function createField(name, schema, value) {
  const initial = value === undefined ? schema.default : value;
  if (Array.isArray(schema.enum)) return choice(name, schema, initial);
  switch (schema.type) {
    case "string": return text(name, schema, initial);
    case "integer":
    case "number": return number(name, schema, initial);
    case "boolean": return checkbox(name, schema, initial);
    default: return jsonField(name, initial, schema.description);
  }
}

function labelled(name, hint, input) {
  input.id = `field-${(fields += 1)}`;
  return h("div", { class: "field" },
    h("label", { for: input.id }, name),
    hint ? h("div", { class: "hint" }, hint) : null,
    input);
}

function text(name, schema, value) {
  const long = (schema.maxLength ?? 1000) > 200 && String(value ?? "").length > 60;
  const input = h(long ? "textarea" : "input", { value: value ?? "", spellcheck: "false" });
  const read = () => (input.value === "" && value === undefined ? undefined : input.value);
  return { element: labelled(name, schema.description, input), read };
}

function number(name, schema, value) {
  const step = schema.type === "integer" ? "1" : "any";
  const input = h("input", { type: "number", step, value: value ?? "", min: schema.minimum, max: schema.maximum });
  const read = () => {
    if (input.value.trim() === "") return undefined;
    const found = Number(input.value);
    if (!Number.isFinite(found)) throw new Error(`${name} is not a number`);
    // A larger integer would change silently, so it is refused here.
    if (schema.type === "integer" && !Number.isSafeInteger(found)) throw new Error(`${name} is not an integer of at most 53 bits`);
    return found;
  };
  return { element: labelled(name, schema.description, input), read };
}

function checkbox(name, schema, value) {
  const input = h("input", { type: "checkbox", checked: value === true });
  return { element: labelled(name, schema.description, input), read: () => input.checked };
}

function choice(name, schema, value) {
  const options = schema.enum.map((option) => h("option", { value: JSON.stringify(option) }, String(option)));
  const input = h("select", {}, options);
  if (value !== undefined) input.value = JSON.stringify(value);
  return { element: labelled(name, schema.description, input), read: () => JSON.parse(input.value) };
}

function jsonField(name, value, hint) {
  const input = h("textarea", { value: value === undefined ? "" : JSON.stringify(value, null, 2), spellcheck: "false" });
  const read = () => {
    if (input.value.trim() === "") return undefined;
    try {
      return JSON.parse(input.value);
    } catch (error) {
      throw new Error(`${name} is not valid JSON: ${error.message}`);
    }
  };
  return { element: labelled(name, hint, input), read };
}
