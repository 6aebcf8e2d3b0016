// A line follows the recording through the charts of its pane; a click on a chart plays from there.
function followSound(sound) {
  const audio = sound.querySelector("audio");
  if (!audio) return;
  const charts = [...sound.querySelectorAll("[data-time]")].map((chart) => {
    const [left, right, top, bottom, seconds] = chart.dataset.time.split(" ").map(Number);
    const line = document.createElementNS("http://www.w3.org/2000/svg", "line");
    line.setAttribute("class", "playhead");
    line.setAttribute("y1", top);
    line.setAttribute("y2", bottom);
    line.setAttribute("visibility", "hidden");
    chart.append(line);
    chart.addEventListener("click", (event) => {
      const x = new DOMPoint(event.clientX, event.clientY).matrixTransform(chart.getScreenCTM().inverse()).x;
      if (x < left || x > right) return;
      audio.currentTime = Math.min(seconds * (x - left) / (right - left), audio.duration || seconds);
      audio.play();
    });
    return {line, at: (time) => left + (right - left) * Math.min(time / seconds, 1)};
  });
  const draw = () => {
    for (const {line, at} of charts) {
      line.setAttribute("x1", at(audio.currentTime));
      line.setAttribute("x2", at(audio.currentTime));
      line.setAttribute("visibility", "visible");
    }
    if (!audio.paused) requestAnimationFrame(draw);
  };
  audio.addEventListener("play", draw);
  audio.addEventListener("seeked", draw);
}
document.querySelectorAll(".sound").forEach(followSound);
