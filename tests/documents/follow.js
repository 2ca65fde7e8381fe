// A muscle in JavaScript without any library: `command: [node, follow.js]` with `speaks: lines`.
// It pushes by what it reads and by the newest update of its brain, and tells the brain which update that was.
let actuators = [], gain = 1;
require("readline").createInterface({ input: process.stdin }).on("line", (line) => {
    const asked = JSON.parse(line);
    let answer = {};
    if (asked.call === "setup") {
        actuators = asked.actuators;
    } else if (asked.call === "update") {
        if (typeof asked.update === "number") gain = asked.update;
    } else if (asked.call === "act") {
        const count = asked.readings["counter.count"];
        const setpoints = {};
        for (const it of actuators) setpoints[it.id] = (count + gain) % it.space.n;
        answer = { setpoints, data: { gain } };
    }
    console.log(JSON.stringify(answer));
});
