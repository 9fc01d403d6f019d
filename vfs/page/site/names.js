/**
 * Names as parts of addresses. A name of a file may be no UTF-8: the server writes each such byte as half a character,
 * U+DC80 to U+DCFF, as Python does, and takes it back as the byte.
 */

const UTF8 =
  /[\x00-\x7f]|[\xc2-\xdf][\x80-\xbf]|(?:\xe0[\xa0-\xbf]|[\xe1-\xec\xee\xef][\x80-\xbf]|\xed[\x80-\x9f])[\x80-\xbf]|(?:\xf0[\x90-\xbf]|[\xf1-\xf3][\x80-\xbf]|\xf4[\x80-\x8f])[\x80-\xbf]{2}|([\x80-\xff])/g;

/**
 * Write a name for an address.
 *
 * @param {string} name
 * @returns {string} ASCII, with %-escapes.
 */
export function quoted(name) {
  return name.replace(/[^\ud800-\udfff]+|[\ud800-\udfff]/gu, (part) => {
    const code = part.charCodeAt(0);
    const half = part.length === 1 && code >= 0xd800 && code <= 0xdfff;
    if (half && code >= 0xdc80 && code <= 0xdcff) return escaped(code & 0xff);
    return half ? "%EF%BF%BD" : encodeURIComponent(part);
  });
}

/**
 * Read what `quoted` writes.
 *
 * @param {string} text
 * @returns {string} the name; escapes that are none stay as they are.
 */
export function unquoted(text) {
  return text.replace(/(?:%[0-9a-f]{2})+/gi, (run) => {
    const bytes = String.fromCharCode(...run.slice(1).split("%").map((two) => parseInt(two, 16)));
    return bytes.replace(UTF8, (all, wrong) =>
      wrong ? String.fromCharCode(0xdc00 + wrong.charCodeAt(0)) : decodeURIComponent([...all].map(codeOf).join("")),
    );
  });
}

function codeOf(byte) {
  return escaped(byte.charCodeAt(0));
}

function escaped(byte) {
  return `%${byte.toString(16).toUpperCase().padStart(2, "0")}`;
}
