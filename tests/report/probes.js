// Run in the page by report_test.py.
(() => {
  const channels = (text) => {
    const canvas = new OffscreenCanvas(1, 1).getContext("2d");
    canvas.fillStyle = text;
    canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const luminance = (rgb) => {
    const [r, g, b] = rgb.slice(0, 3).map((c) => (c / 255 <= 0.04045 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const contrast = (a, b) => {
    const [high, low] = [luminance(a), luminance(b)].sort((x, y) => y - x);
    return (high + 0.05) / (low + 0.05);
  };
  const background = (node) => {
    for (let at = node; at instanceof Element; at = at.parentElement) {
      const colour = channels(getComputedStyle(at).backgroundColor);
      if (colour[3] === 255) return colour;
    }
    return [255, 255, 255, 255];
  };
  const visible = (node) => node.getClientRects().length > 0 && getComputedStyle(node).visibility === "visible";

  window.probes = {
    // Texts whose contrast with what is behind them is below `least`. In a chart a text stands on the card, on the block
    // drawn just before it, or on the ribbon.
    faint(least) {
      const found = [];
      const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
      let count = 0;
      while (walker.nextNode()) {
        const node = walker.currentNode.parentElement;
        if (!walker.currentNode.data.trim() || ["SCRIPT", "STYLE", "NOSCRIPT", "OPTION", "title"].includes(node.tagName)) continue;
        if (node.closest(".unseen, [hidden], .skip") || !visible(node)) continue;
        const style = getComputedStyle(node), drawn = node instanceof SVGElement;
        const before = node.previousElementSibling;
        const behind = drawn && node.classList.contains("on-mark") ? channels(getComputedStyle(before).fill) : background(node);
        const ratio = contrast(channels(drawn ? style.fill : style.color), behind);
        count += 1;
        if (ratio < least) found.push(`${ratio.toFixed(2)}: ${walker.currentNode.data.trim().slice(0, 60)}`);
      }
      return { count, found };
    },
    // What the Tab key must stop at: of radio buttons of one name, one.
    stops() {
      const all = [...document.querySelectorAll("a[href], button, input, select, summary, [tabindex]")];
      return all.filter((node) => node.tabIndex >= 0 && node.checkVisibility() && !(node.type === "radio" && !node.checked));
    },
    mark() {
      this.stops().forEach((node, i) => { node.dataset.stop = i; });
      return this.stops().length;
    },
    focused() { return document.activeElement && document.activeElement.dataset.stop !== undefined ? Number(document.activeElement.dataset.stop) : -1; },
    missed(seen) {
      const reached = new Set(seen);
      return this.stops().filter((node) => !reached.has(Number(node.dataset.stop)))
        .map((node) => `${node.tagName} ${node.getAttribute("aria-label") || node.textContent.trim().slice(0, 40) || node.id}`);
    },
    charts() {
      return [...document.querySelectorAll("figure.card")].map((figure) => {
        const box = figure.querySelector(".canvas").getBoundingClientRect();
        return { id: figure.id, marks: figure.querySelectorAll(".mark").length, groups: figure.querySelectorAll("[role=group] [tabindex='0']").length,
          unlabelled: figure.querySelectorAll(".mark:not([aria-label])").length, title: figure.querySelector("h3").textContent, reading: figure.querySelector(".reading").textContent,
          clip: { x: box.x + scrollX, y: box.y + scrollY, width: box.width, height: box.height } };
      });
    },
    // Of a picture: how many colours it has, and the share of its commonest.
    async picture(base64) {
      const blob = await (await fetch(`data:image/png;base64,${base64}`)).blob();
      const bitmap = await createImageBitmap(blob);
      const canvas = new OffscreenCanvas(bitmap.width, bitmap.height).getContext("2d");
      canvas.drawImage(bitmap, 0, 0);
      const pixels = new Uint32Array(canvas.getImageData(0, 0, bitmap.width, bitmap.height).data.buffer);
      const counts = new Map();
      for (const pixel of pixels) counts.set(pixel, (counts.get(pixel) || 0) + 1);
      return { colours: counts.size, commonest: Math.max(...counts.values()) / pixels.length };
    },
  };
})();
