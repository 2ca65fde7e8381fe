// Stream: the news of the server, heard once for all pages of a browser, which lets a server have six connections.
// A page that nobody sees is told nothing, and looks at everything anew when it is seen; if none is, the stream ends.
const pages = new Map();  // the port of each page -> whether it is seen
let stream = null, epoch = null, online = false;

const seen = () => [...pages].filter(([, it]) => it).map(([port]) => port);
function tell(kind, data) {
  const ports = seen();
  for (const port of ports) port.postMessage({ kind, data, pages: ports.length });
}
function open() {
  stream = new EventSource("/api/events");
  stream.addEventListener("hello", (message) => {
    const told = JSON.parse(message.data);
    online = true;
    tell("hello", { missed: told.missed || told.epoch !== epoch });
    epoch = told.epoch;
  });
  stream.addEventListener("news", (message) => tell("news", JSON.parse(message.data)));
  stream.onerror = () => { online = false; tell("gone"); };
}
export function serve(port) {
  port.onmessage = ({ data }) => {
    if (data === "bye") pages.delete(port); else pages.set(port, data === "seen");
    if (seen().length === 0) { stream?.close(); stream = epoch = null; online = false; }
    else if (!stream) open();
    else if (data === "seen" && online) port.postMessage({ kind: "hello", data: { missed: true }, pages: seen().length });
  };
}
self.onconnect = (event) => serve(event.ports[0]);
